import re
from pathlib import Path

import numpy as np
import pytest

from garnet import Split, as_graph, load_graph
from garnet.graph.files import left_out, open_source
from garnet.io.formats import FORMATS, LONELY, NODE_FACTS

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "my-graph.md"
WHOLE = as_graph(
    ([[0, 1, 1, 2], [1, 0, 2, 1]], 4),
    features=np.eye(4),
    labels=[0, 1, 0, 1],
    split=Split(np.array([0]), np.array([1]), np.array([2])),
    names=["a", "b", "c", "d"],
    bipartite=[False, True, False, True],
)
WRITTEN = [one for one in FORMATS if one.write is not None]


@pytest.mark.parametrize("kind", WRITTEN, ids=[one.ending for one in WRITTEN])
def test_a_format_holds_what_the_table_says_and_the_rest_is_told(tmp_path, kind):
    path = tmp_path / f"graph{kind.ending}"
    WHOLE.save(path)
    found = load_graph(path)
    held = [fact for fact in NODE_FACTS if getattr(found, fact) is not None]
    held += [LONELY] if found.num_nodes == WHOLE.num_nodes else []
    assert sorted(held) == sorted(kind.holds)
    assert sorted([*held, *left_out(WHOLE, path)]) == sorted([*NODE_FACTS, LONELY])


@pytest.mark.parametrize("kind", WRITTEN, ids=[one.ending for one in WRITTEN])
def test_only_what_streams_is_opened_as_a_stream(tmp_path, kind):
    path = tmp_path / f"graph{kind.ending}"
    as_graph(WHOLE.adjacency).save(path)
    if not kind.streams:
        with pytest.raises(ValueError, match="must end in"):
            open_source(path)
        return
    pairs = sum(len(heads) for heads, _, _ in open_source(path).edges(1))
    assert pairs in (WHOLE.num_edges, 2 * WHOLE.num_edges)


def test_the_page_lists_the_formats_of_the_table():
    listed = {}
    for row in PAGE.read_text().splitlines():
        if row.startswith("| `."):
            _, endings, _, holds, _ = row.split("|")
            for ending in re.findall(r"`(\.\w+)`", endings.partition("(")[0]):
                listed[ending] = {fact for fact in NODE_FACTS if fact in holds}
    assert listed == {one.ending: set(one.holds) & set(NODE_FACTS) for one in FORMATS}
