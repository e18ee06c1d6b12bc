"""A purifier as a transform of PyG: each graph by itself, and what goes along with edges that stay or are new."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.datasets import FakeDataset
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import Compose, ToSparseTensor, ToUndirected
from torch_geometric.utils import coalesce, is_undirected, to_undirected

from garnet import GARNET, Ledger, as_graph
from garnet.datasets import contextual_block_model
from garnet.errors import GraphError, ParameterError
from garnet.purify.base import CleanedGraph, Purifier

pytestmark = pytest.mark.filterwarnings("ignore::garnet.errors.RankWarning")


@dataclass(frozen=True, kw_only=True)
class Swap(Purifier):
    """Drops one edge, adds another, and halves the weights, so that one can say by hand what has to come out."""

    dropped: tuple[int, int] = (0, 1)
    added: tuple[int, int] = (0, 3)

    def _purify(self, graph, *, progress):
        stays = np.array([tuple(edge) != self.dropped for edge in graph.edges.T.tolist()], bool)
        edges = np.concatenate([graph.edges[:, stays], np.array(self.added).reshape(2, 1)], axis=1)
        weights = np.append(graph.weights[stays] / 2, 9)
        every = torch.ones(graph.num_edges, dtype=torch.bool)
        ledger = Ledger(torch.from_numpy(graph.edges), every.float(), every, torch.from_numpy(stays), graph.num_nodes)
        return CleanedGraph(graph.with_edges(edges, weights), ledger, ())


def rows(data, *names):
    """What a `Data` says of each directed edge."""
    columns = [data[name] if isinstance(data[name], list) else data[name].tolist() for name in names]
    return dict(zip(map(tuple, data.edge_index.T.tolist()), zip(*columns, strict=True), strict=True))


def ring(**fields):
    """Four nodes in a ring, both directions of each edge, of which each has an attribute of its own."""
    one_way = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    edges = torch.cat([one_way, one_way.flip(0)], dim=1)
    return Data(edge_index=edges, num_nodes=4, edge_attr=torch.arange(16.0).view(8, 2), **fields)


def test_attributes_of_edges_go_along_and_new_edges_are_filled():
    data = ring(edge_type=torch.arange(1, 9), words=list("abcdefgh"), time=np.arange(8.0))
    clean = Swap(added=(0, 2))(data)
    before, after = rows(data, "edge_attr", "edge_type", "words"), rows(clean, "edge_attr", "edge_type", "words")
    assert set(after) == set(before) - {(0, 1), (1, 0)} | {(0, 2), (2, 0)}
    assert all(after[edge] == before[edge] for edge in set(after) & set(before))
    assert after[0, 2] == after[2, 0] == ([0.0, 0.0], 0, None)
    assert rows(clean, "edge_added") == {edge: (edge not in before,) for edge in after}
    assert clean.time.shape == (8,)
    assert clean.edge_attr.dtype == torch.float32
    assert clean.validate()
    assert torch.equal(data.edge_attr, ring().edge_attr)


def test_the_mean_fills_numbers_with_fractions_and_zero_all_others():
    clean = Swap(added=(0, 2))(ring(edge_type=torch.arange(1, 9)), fill="mean")
    assert rows(clean, "edge_attr", "edge_type")[0, 2] == (ring().edge_attr.mean(dim=0).tolist(), 0)
    with pytest.raises(ParameterError, match="'zeros' or 'mean'"):
        Swap()(ring(), fill="ones")


def test_weights_that_were_there_stay_beside_the_new_ones():
    weight = torch.tensor([1.0, 2, 3, 4, 1, 2, 3, 4])
    clean = Swap(added=(0, 2))(ring(edge_weight=weight))
    assert rows(clean, "edge_weight", "edge_weight_given") == {
        (1, 2): (1, 2), (2, 1): (1, 2), (2, 3): (1.5, 3), (3, 2): (1.5, 3), (0, 3): (2, 4), (3, 0): (2, 4),
        (0, 2): (9, 0), (2, 0): (9, 0),
    }  # fmt: skip
    assert "edge_weight_given" not in Swap(added=(0, 2))(ring())
    again = Swap(dropped=(1, 2), added=(1, 3))(clean)
    assert rows(again, "edge_weight_given")[2, 3] == (3,)


def test_directions_are_given_back():
    data = Data(edge_index=torch.tensor([[1, 1, 2, 0, 3, 3], [0, 2, 3, 3, 0, 1]]), num_nodes=4)
    data.edge_weight = torch.tensor([1.0, 4, 6, 2, 8, 1])
    clean = Swap(dropped=(0, 1), added=(0, 2))(data)
    # 0 -> 3 weighs a quarter of 3 -> 0, as it did.
    assert rows(clean, "edge_weight") == {
        (1, 2): (2,), (2, 3): (3,), (0, 3): (1,), (3, 0): (4,), (3, 1): (0.5,), (0, 2): (9,), (2, 0): (9,),
    }  # fmt: skip
    both = Compose([ToUndirected(), Swap(dropped=(0, 1), added=(0, 2))])(data)
    assert is_undirected(both.edge_index, both.edge_weight)


def test_loops_go_and_of_parallel_edges_the_heaviest_stays_with_its_attributes():
    edges = torch.tensor([[0, 1, 1, 1, 1, 2, 0, 2, 2], [1, 2, 2, 0, 2, 1, 0, 3, 1]])
    weight = torch.tensor([1.0, 2, 8, 1, 8, 8, 5, 1, 3])
    data = Data(edge_index=edges, edge_weight=weight, edge_attr=torch.arange(9.0), num_nodes=4)
    clean = Swap(added=(0, 3))(data)
    assert rows(clean, "edge_attr", "edge_weight") == {
        (1, 2): (2, 4), (2, 1): (5, 4), (2, 3): (7, 0.5), (0, 3): (0, 9), (3, 0): (0, 9)
    }  # fmt: skip


@pytest.mark.parametrize("directed", [False, True])
def test_what_comes_out_is_what_pyg_makes_of_the_purified_graph(directed):
    graph = contextual_block_model(80, classes=2, mean_degree=6, features=8, signal=3.0, seed=0)
    data = graph.to_pyg()
    if directed:
        one_way = data.edge_index[0] < data.edge_index[1]
        data.edge_index, data.edge_weight = data.edge_index[:, one_way], data.edge_weight[one_way]
    clean, result = GARNET(support=0.3)(data), GARNET(support=0.3).purify(graph)
    edges, weights = to_undirected(clean.edge_index, clean.edge_weight, reduce="max")
    expected = coalesce(*[getattr(result.graph.to_pyg(), name) for name in ("edge_index", "edge_weight")])
    assert torch.equal(edges, expected[0])
    assert torch.allclose(weights, expected[1])
    assert int(clean.edge_added.sum()) == 2 * result.ledger.counts["added"] > 0


def test_pairs_that_a_model_is_asked_for_are_no_edges_of_the_graph():
    data = ring(edge_label=torch.ones(8), edge_label_index=ring().edge_index)
    clean = Swap(added=(0, 2))(data)
    assert clean.edge_label is data.edge_label
    assert clean.edge_label_index is data.edge_label_index


def test_an_attribute_that_cannot_go_along_is_refused_by_name():
    with pytest.raises(GraphError, match="'edge_attr'"):
        Swap()(Data(edge_index=ring().edge_index, num_nodes=4, edge_attr=torch.eye(8).to_sparse()))


# --- several graphs --------------------------------------------------------------------------------------------------


def small_graphs():
    """Graphs of all sizes, those of no node, one node and no edge among them."""
    torch.manual_seed(0)
    graphs = list(FakeDataset(num_graphs=4, avg_num_nodes=30, avg_degree=4, edge_dim=3))
    for n in (0, 1, 5, 2):
        x, edges = torch.rand(n, graphs[0].num_features), torch.zeros(2, 0, dtype=torch.long)
        graphs.insert(n, Data(x=x, y=torch.tensor([n % 2]), edge_index=edges, edge_attr=torch.zeros(0, 3)))
    graphs[2].edge_index, graphs[2].edge_attr = torch.tensor([[0, 1], [1, 0]]), torch.ones(2, 3)
    return graphs


def same(one, other):
    """Whether two `Data` say the same; of nodes that features count there is no number."""
    names = set(one.keys()) - {"num_nodes"}
    assert names == set(other.keys()) - {"num_nodes"}
    return one.num_nodes == other.num_nodes and all(torch.equal(one[name], other[name]) for name in names)


def test_a_batch_is_purified_graph_by_graph():
    graphs, purifier = small_graphs(), GARNET(support=0.3, k=None)
    batch = Batch.from_data_list(graphs)
    clean = purifier(batch)
    apart = [purifier(graph) for graph in graphs]
    assert type(clean) is type(batch)
    assert clean.num_graphs == batch.num_graphs == 8
    owner = clean.batch
    assert torch.equal(owner[clean.edge_index[0]], owner[clean.edge_index[1]])
    assert int(clean.edge_added.sum()) > 0
    assert all(same(one, other) for one, other in zip(clean.to_data_list(), apart, strict=True))
    assert same(Batch.from_data_list(apart), clean)
    assert torch.equal(clean.ptr, batch.ptr)
    assert torch.equal(clean.y, batch.y)


def test_a_graph_without_edges_comes_back_as_it_is():
    for graph in (one for one in small_graphs() if not one.num_edges):
        clean = GARNET()(graph)
        assert clean.num_nodes == graph.num_nodes
        assert torch.equal(clean.x, graph.x)
        assert torch.equal(clean.edge_index, graph.edge_index)


def test_an_edge_index_of_pyg_s_own_kind_is_no_list_of_graphs():
    edges = EdgeIndex(ring().edge_index, sparse_size=(4, 4))
    assert GARNET()((edges, 4)) == GARNET()((ring().edge_index, 4))
    assert torch.equal(GARNET()(Data(edge_index=edges, num_nodes=4)).edge_index, GARNET()(ring()).edge_index)


def test_lists_and_datasets_give_lists():
    graphs = small_graphs()
    for several in (graphs, tuple(graphs)):
        found = GARNET()(several)
        assert isinstance(found, list)
        assert all(same(one, GARNET()(other)) for one, other in zip(found, graphs, strict=True))
    assert len(GARNET()(FakeDataset(num_graphs=3, avg_num_nodes=20))) == 3


def test_the_batches_of_a_loader_can_be_purified_as_they_come():
    for batch in DataLoader(small_graphs(), batch_size=3):
        assert GARNET()(batch).num_graphs == batch.num_graphs


def test_a_batch_by_hand_with_its_nodes_in_any_order():
    graphs = [graph for graph in small_graphs() if graph.num_edges]
    batch = Batch.from_data_list(graphs)
    order = torch.randperm(batch.num_nodes, generator=torch.Generator().manual_seed(0))
    place = order.argsort()
    mixed = Data(x=batch.x[order], edge_index=place[batch.edge_index], batch=batch.batch[order])
    clean = GARNET(support=0.3)(mixed)
    straight = GARNET(support=0.3)(Data(x=batch.x, edge_index=batch.edge_index, batch=batch.batch))
    owner = clean.batch
    assert torch.equal(owner[clean.edge_index[0]], owner[clean.edge_index[1]])
    assert abs(clean.num_edges - straight.num_edges) < 0.1 * straight.num_edges


def test_several_graphs_are_refused_where_one_is_wanted():
    graphs = small_graphs()
    for several in (Batch.from_data_list(graphs), graphs, FakeDataset(num_graphs=3), Data(
        edge_index=ring().edge_index, num_nodes=4, batch=torch.tensor([0, 0, 1, 1])
    )):  # fmt: skip
        with pytest.raises(GraphError, match="GARNET"):
            as_graph(several)
    alone = Batch.from_data_list(graphs[-1:])
    assert as_graph(alone) == as_graph([graphs[-1]]) == as_graph(graphs[-1])


def test_a_batch_that_contradicts_itself_is_refused():
    data = ring(batch=torch.tensor([0, 0, 1, 1]))
    with pytest.raises(GraphError, match="different graphs of the batch"):
        GARNET()(data)
    for wrong in (torch.tensor([0, 1]), torch.tensor([0.0, 0, 1, 1]), torch.tensor([-1, 0, 0, 0])):
        with pytest.raises(GraphError, match="must number the graph"):
            GARNET()(ring(batch=wrong))


def test_the_graph_of_a_batch_that_a_parameter_does_not_fit_is_named():
    with pytest.raises(ParameterError, match=r"^Graph \d of the batch, with 2 nodes.*'k'"):
        GARNET(k=5)(Batch.from_data_list(small_graphs()))


# --- other ways to keep edges ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning", "ignore:Sparse CSC tensor:UserWarning")
@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo, torch.sparse_csc])
def test_an_adj_t_is_read_where_there_is_no_edge_index(layout):
    torch.manual_seed(0)
    edges, weights = coalesce(torch.randint(20, (2, 60)), torch.rand(60) + 0.1, reduce="max")
    data = Data(edge_index=edges, edge_weight=weights, num_nodes=20)
    sparse = ToSparseTensor(attr="edge_weight", layout=torch.sparse_csr)(data)
    sparse.adj_t = sparse.adj_t.to_sparse(layout=layout)
    assert "edge_index" not in sparse
    assert as_graph(sparse, symmetrize=True) == as_graph(data, symmetrize=True)
    clean, expected = GARNET()(sparse), ToSparseTensor(layout=torch.sparse_csr)(GARNET()(data))
    assert torch.allclose(clean.adj_t.to_dense(), expected.adj_t.to_dense())
    with pytest.raises(GraphError, match="directed"):
        as_graph(sparse)


def test_an_adj_t_that_is_none_is_refused():
    for wrong in ("adj", torch.eye(3), torch.eye(3).view(3, 3, 1).expand(3, 3, 2).to_sparse(2)):
        with pytest.raises(GraphError, match="adj_t"):
            as_graph(Data(adj_t=wrong, num_nodes=3))


def shop():
    data = HeteroData()
    data["user"].x, data["item"].x = torch.rand(4, 3), torch.rand(3, 2)
    data["user"].y = torch.tensor([0, 1, 1, 0])
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 0, 1, 3], [0, 2, 1, 2]])
    data["user", "buys", "item"].edge_weight = torch.tensor([1.0, 2, 3, 4])
    data["user", "knows", "user"].edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    return data


def test_one_relation_of_a_heterodata_by_name():
    data = shop()
    friends = as_graph(data, relation=("user", "knows", "user"))
    assert friends == as_graph(data, relation="knows")
    assert friends == as_graph(Data(edge_index=data["knows"].edge_index, x=data["user"].x, y=data["user"].y))
    sales = as_graph(data, relation=("user", "buys", "item"))
    assert sales.num_nodes == 7
    assert sales.edges.T.tolist() == [[0, 4], [0, 6], [1, 5], [3, 6]]
    assert sales.weights.tolist() == [1, 2, 3, 4]
    assert sales.sides.tolist() == [False] * 4 + [True] * 3


def test_a_heterodata_without_a_name_of_a_relation_is_refused_with_their_names():
    for call in (as_graph, GARNET(), lambda data: as_graph(data, relation="sells"), GARNET().purify):
        with pytest.raises(GraphError, match=r"\('user', 'buys', 'item'\).*relation="):
            call(shop())
    for other in (ring(), np.eye(3), "graph.npz"):
        with pytest.raises(GraphError, match="relation"):
            as_graph(other, relation="buys")
    with pytest.raises(GraphError, match="holds 2 graphs"):
        as_graph(Batch.from_data_list([shop(), shop()]), relation="buys")
    wrong = shop()
    wrong["buys"].edge_index[1, 0] = 3
    with pytest.raises(GraphError, match="Node 3 does not exist"):
        as_graph(wrong, relation="buys")
