"""What may be said of the tables that a command reads: options that every command with a graph has."""

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

# What was said to the command that runs; typer has a context of its own, which not all its versions share with click.
_SAID: ContextVar[Mapping[str, Any] | None] = ContextVar("said of tables", default=None)


def _option(kind: Any, name: str, text: str, default: Any = None, metavar: str | None = None) -> tuple[Any, Any]:
    return Annotated[kind, typer.Option(name, metavar=metavar, help=text)], default


_NAME_OR_NUMBER = "by its name, or its number from 1 on."
_OPTIONS: dict[str, tuple[Any, Any]] = {
    "source_column": _option(
        str | None, "--source", f"Of a table of edges, the column of the first ends, {_NAME_OR_NUMBER}", None, "COLUMN"
    ),
    "target_column": _option(str | None, "--target", "The column of the second ends.", None, "COLUMN"),
    "weight_column": _option(str | None, "--weight", "The column of the weights.", None, "COLUMN"),
    "time_column": _option(str | None, "--time", "The column of times, which written tables keep.", None, "COLUMN"),
    "before": _option(
        str | None, "--before", "Leave out rows with this time or a later one: 2024-05-31, or a number.", None, "TIME"
    ),
    "header": _option(bool | None, "--header/--no-header", "Whether the first row of a text is a header."),
    "delimiter": _option(
        str | None, "--delimiter", "What stands between the cells of a text.  [default: what divides all rows alike]"
    ),
    "decimal": _option(str, "--decimal", "What stands before the fraction of a number, . or a comma.", "."),
    "encoding": _option(str, "--encoding", "Of a text, such as latin-1 or utf-16.", "utf-8"),
    "duplicates": _option(
        str, "--duplicates", "What becomes of several rows for one edge: max, sum, count or first.", "max"
    ),
    "node_table": _option(
        Path | None, "--nodes", "A table with a row for each node: .csv, .tsv, .txt or .parquet.", None, "FILE"
    ),
    "id_column": _option(str | None, "--id", "Of a table of nodes, the column of their names.", None, "COLUMN"),
    "label_column": _option(str | None, "--label", "The column of their classes.", None, "COLUMN"),
    "feature_columns": _option(
        str | None, "--features", "Their features: columns with commas between them, or 'all'.", None, "COLUMNS"
    ),
    "split_column": _option(str | None, "--split-column", "The column of train, val and test.", None, "COLUMN"),
}


def reads_tables(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options for tables, which `said_of_tables` gives while it runs."""
    hints = get_type_hints(command, include_extras=True)
    own = [one.replace(annotation=hints[name]) for name, one in inspect.signature(command).parameters.items()]
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, keyword, default=default, annotation=kind) for name, (kind, default) in _OPTIONS.items()
    ]

    def with_tables(**given: Any) -> None:
        said = _SAID.set({name: given.pop(name) for name in _OPTIONS})
        try:
            command(**given)
        finally:
            _SAID.reset(said)

    with_tables.__name__, with_tables.__doc__ = command.__name__, command.__doc__
    with_tables.__module__ = command.__module__
    with_tables.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
    with_tables.__annotations__ = {**hints, **{one.name: one.annotation for one in added}}
    return with_tables


def said_of_tables() -> tuple[TableOptions, NodeTable | None]:
    """What was said of the tables to the command that runs now."""
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
        decimal=said["decimal"],
        encoding=said["encoding"],
        duplicates=said["duplicates"],
    )
    columns = {
        "--id": said["id_column"],
        "--label": said["label_column"],
        "--features": said["feature_columns"],
        "--split-column": said["split_column"],
    }
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
        encoding=said["encoding"],
    )
    return options, table


def require_plain_tables() -> None:
    """Refuse what is said of tables where they are read in pieces, by the names of their columns alone."""
    from garnet.errors import ParameterError

    options, nodes = said_of_tables()
    if options.said or nodes is not None:
        said = f"the {options.said[0]}" if options.said else "a table of nodes"
        raise ParameterError(
            f"With --memory or --cluster a table is read in pieces, and {said} cannot be chosen; write one with the "
            "columns source, target and weight, or leave --memory out."
        )
