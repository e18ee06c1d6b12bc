"""Options for the tables that a command reads, shared by every command that takes a graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from garnet.graph.node_table import NodeTable
    from garnet.io.table_layout import TableOptions

# The running command's options; typer has its own context, which not all its versions share with click.
_SAID: ContextVar[Mapping[str, Any] | None] = ContextVar("said of tables", default=None)


def _option(kind: Any, flag: str, text: str, metavar: str) -> tuple[str, Any]:
    # A list, although one value is wanted, so that a second one is noticed and not silently ignored.
    return flag, Annotated[list[kind] | None, typer.Option(flag, metavar=metavar, help=text)]


_NAME_OR_NUMBER = "by its name, or its number from 1 on."
_OPTIONS: dict[str, tuple[str, Any]] = {
    "source_column": _option(
        str, "--source", f"Of a table of edges, the column of the first ends, {_NAME_OR_NUMBER}", "COLUMN"
    ),
    "target_column": _option(str, "--target", "The column of the second ends.", "COLUMN"),
    "weight_column": _option(str, "--weight", "The column of the weights.", "COLUMN"),
    "header": (
        "--header",
        Annotated[
            bool | None, typer.Option("--header/--no-header", help="Whether the first row of a text file is a header.")
        ],
    ),
    "time_column": _option(str, "--time", "The column of times, which written tables keep.", "COLUMN"),
    "before": _option(
        str, "--before", "Leave out rows with this time or a later one: 2024-05-31, or a number.", "TIME"
    ),
    "delimiter": _option(
        str, "--delimiter", "What stands between the cells of a text.  [default: what divides all rows alike]", "MARK"
    ),
    "decimal": _option(
        str, "--decimal", "What stands before the fraction of a number, . or a comma.  [default: .]", "MARK"
    ),
    "encoding": _option(str, "--encoding", "Of a text, such as latin-1 or utf-16.  [default: utf-8]", "NAME"),
    "duplicates": _option(
        str,
        "--duplicates",
        "What becomes of several rows for one edge: max, sum, count or first.  [default: max]",
        "RULE",
    ),
    "node_table": _option(Path, "--nodes", "A table with a row for each node: .csv, .tsv, .txt or .parquet.", "FILE"),
    "id_column": _option(str, "--id", "Of a table of nodes, the column of their names.", "COLUMN"),
    "label_column": _option(str, "--label", "The column of their classes.", "COLUMN"),
    "feature_columns": _option(
        str, "--features", "Their features: columns with commas between them, or 'all'.", "COLUMNS"
    ),
    "split_column": _option(str, "--split-column", "The column of train, val and test.", "COLUMN"),
}
_OF_NODES = ("node_table", "id_column", "label_column", "feature_columns", "split_column")


def reads_tables(command: Callable[..., None], *, nodes: bool = True) -> Callable[..., None]:
    """Add the options for tables to a command; `said_of_tables` returns their values while it runs.

    Args:
        command: a command without them.
        nodes: whether it also reads tables of nodes.
    """
    options = {name: option for name, option in _OPTIONS.items() if nodes or name not in _OF_NODES}
    hints = get_type_hints(command, include_extras=True)
    own = [one.replace(annotation=hints[name]) for name, one in inspect.signature(command).parameters.items()]
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, keyword, default=None, annotation=kind) for name, (_, kind) in options.items()]

    def with_tables(**given: Any) -> None:
        values = {name: _only(flag, given.pop(name, None)) for name, (flag, _) in _OPTIONS.items()}
        if "context" in given:
            given["context"].params.update(values)
        said = _SAID.set(values)
        try:
            command(**given)
        finally:
            _SAID.reset(said)

    with_tables.__name__, with_tables.__doc__ = command.__name__, command.__doc__
    with_tables.__module__ = command.__module__
    with_tables.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
    with_tables.__annotations__ = {**hints, **{one.name: one.annotation for one in added}}
    return with_tables


def _only(flag: str, values: Any) -> Any:
    """The only value of an option."""
    from garnet.errors import ParameterError

    if not isinstance(values, list):
        return values
    if len(values) > 1:
        told = " and ".join(repr(str(value)) for value in values)
        raise ParameterError(f"{flag} is given {len(values)} times, {told}; give one.")
    return values[0] if values else None


def said_of_tables() -> tuple[TableOptions, NodeTable | None]:
    """The running command's options for tables."""
    from garnet.errors import ParameterError
    from garnet.graph.node_table import ALL, NodeTable
    from garnet.io.table_layout import TableOptions

    said = _SAID.get()
    if said is None:
        return TableOptions(), None
    delimiter = said["delimiter"]
    options = TableOptions(
        source=said["source_column"],
        target=said["target_column"],
        weight=said["weight_column"],
        time=said["time_column"],
        before=said["before"],
        header=said["header"],
        delimiter="\t" if delimiter in ("\\t", "tab") else delimiter,
        **{name: said[name] for name in ("decimal", "encoding", "duplicates") if said[name] is not None},
    )
    columns = {_OPTIONS[name][0]: said[name] for name in _OF_NODES[1:]}
    if said["node_table"] is None:
        alone = next((name for name, value in columns.items() if value is not None), None)
        if alone is not None:
            raise ParameterError(f"{alone} {columns[alone]} is of a table of nodes; give that with --nodes.")
        return options, None
    features = said["feature_columns"]
    table = NodeTable(
        said["node_table"],
        id=said["id_column"],
        labels=said["label_column"],
        features=features if features in (None, ALL) else [name.strip() for name in features.split(",")],
        split=said["split_column"],
        encoding=options.encoding,
    )
    return options, table


def require_plain_tables() -> None:
    """Refuse options for tables that are read in pieces, by their column names alone."""
    from garnet.errors import ParameterError

    options, nodes = said_of_tables()
    if options.said or nodes is not None:
        said = f"the {options.said[0]}" if options.said else "a table of nodes"
        raise ParameterError(
            f"With --memory or --cluster a table is read in pieces, and {said} cannot be chosen; write one with the "
            "columns source, target and weight, or leave --memory out."
        )
