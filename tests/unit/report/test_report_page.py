import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from scipy.sparse.csgraph import connected_components
from typer.testing import CliRunner

from garnet import GARNET, as_graph
from garnet.audit import Audit
from garnet.bench.cell import Cell
from garnet.bench.record import Record
from garnet.cli.demo import _histogram
from garnet.cli.report import report
from garnet.datasets import block_model, cora, random_split
from garnet.errors import GarnetError, GraphError, ParameterError
from garnet.graph.edges import canonical, contains
from garnet.graph.perturbation import Perturbation
from garnet.progress import Stage
from garnet.report.page import write_report
from garnet.report.purification import leading_values
from garnet.report.purification_record import Accuracy, PurificationRecord
from garnet.report.sections import embedded, table
from garnet.spectral.spectrum import normalized_adjacency
from garnet.training.predictor import Predictor
from garnet.training.votes import Votes

NASTY = '</script><script>alert("1")</script><img src=x onerror=alert(2)>&amp;'


class Page(HTMLParser):
    """What a browser would make of a page: its elements, and its text outside of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.scripts, self._raw = [], [], [], None
        self.feed(text)
        self.close()
        self.text = " ".join(" ".join(self.words).split())
        self.data = json.loads(self.scripts[0]) if len(self.scripts) > 1 else None

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._raw = tag if tag in ("script", "style") else None
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._raw = None

    def handle_data(self, data):
        if self._raw == "script":
            self.scripts[-1] += data
        elif self._raw is None:
            self.words.append(data)


def written(subject, tmp_path, **options):
    write_report(subject, tmp_path / "report.html", **options)
    return (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def attacked():
    """Cora with edges between classes that nobody cited, the truth, and its purification."""
    clean = cora()
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, clean.num_nodes, (2, 1500))
    differ = clean.labels[first] != clean.labels[second]
    both = np.concatenate([clean.edges, np.stack([first, second])[:, differ]], axis=1)
    graph = clean.with_edges(canonical(*both, clean.num_nodes))
    truth = graph.edges[:, ~contains(clean.edges, graph.edges, clean.num_nodes)]
    return graph, truth, GARNET().purify(graph)


@pytest.fixture(scope="module")
def result(attacked):
    graph, truth, purification = attacked
    accuracy = Accuracy(before=(0.5, 0.6), after=(0.8, 0.82), model="gcn")
    return PurificationRecord.of(graph, purification, truth=truth, accuracy=accuracy)


def test_a_purification_is_reported_with_the_graph_it_was_made_of(tmp_path):
    graph = block_model(120, seed=0)
    result = GARNET().purify(graph)
    write_report(result, tmp_path / "one.html", graph=graph, command="garnet purify")
    write_report(PurificationRecord.of(graph, result, command="garnet purify"), tmp_path / "other.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "other.html").read_bytes()
    with pytest.raises(ParameterError, match="give it as graph"):
        write_report(result, tmp_path / "none.html")
    with pytest.raises(ParameterError, match="leave it out"):
        write_report(PurificationRecord.of(graph, result), tmp_path / "none.html", graph=graph)
    assert not (tmp_path / "none.html").exists()


def test_cora_fits_in_a_megabyte_and_loads_nothing(result, tmp_path):
    text = written(result, tmp_path, nodes=[1234])
    assert len(text.encode()) < 1_000_000
    assert set(re.findall(r"https?://[^\s\"'<>]*", text)) == {"http://www.w3.org/2000/svg"}
    page = Page(text)
    assert not {"img", "iframe", "object", "embed", "base"} & {tag for tag, _ in page.elements}
    assert [attrs["href"] for tag, attrs in page.elements if tag == "link"] == ["data:,"]
    assert not [attrs for _, attrs in page.elements if {"src", "style", "onclick", "onload"} & attrs.keys()]
    policy = next(attrs["content"] for tag, attrs in page.elements if attrs.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_verdict_counts_what_the_ledger_has(attacked, result, tmp_path):
    _, truth, purification = attacked
    counts = purification.ledger.counts
    page = Page(written(result, tmp_path))
    share = purification.ledger.share_dropped(truth)
    assert (
        f"Of {counts['kept'] + counts['dropped']:,} edges GARNET dropped {counts['dropped']:,} and added "
        f"{counts['added']:,}, removing {100 * share:.1f} % of the {truth.shape[1]:,} adversarial edges; the test "
        "accuracy of gcn went from 55.0 % to 81.0 %."
    ) in page.text
    for title in (
        "Accuracy",
        "Ledger of edges",
        "Neighbourhoods",
        "Spectrum",
        "Degrees and homophily",
        "Scores",
        "Cost",
    ):
        assert title in page.text
    for fingerprint in result.made.fingerprints.values():
        assert fingerprint in page.text


def test_plus_minus_is_the_standard_deviation_over_the_seeds(result, tmp_path):
    page = Page(written(result, tmp_path))
    assert "55.0 ± 7.1" in page.text
    assert "81.0 ± 1.4" in page.text
    assert "± and whiskers are the standard deviation over the seeds" in page.text


def test_without_truth_or_accuracy_nothing_is_said_of_them(attacked, tmp_path):
    graph, _, purification = attacked
    page = Page(written(PurificationRecord.of(graph, purification), tmp_path))
    assert "adversarial" not in page.text
    assert "Accuracy" not in page.text
    assert page.data["words"]["marked"] == "suspicious"
    dropped = {tuple(edge) for edge in purification.ledger.dropped.T.tolist()}
    whole = page.data["graph"]
    for *ends, kind, marked in zip(whole["first"], whole["second"], whole["kinds"], whole["marked"], strict=True):
        assert (tuple(ends) in dropped) == (kind == "1") == (marked == "1")


def test_it_opens_on_the_node_put_right_that_lost_the_most_edges_of_the_attack(attacked, tmp_path):
    graph, truth, purification = attacked
    dropped = truth[:, contains(purification.ledger.dropped, truth, graph.num_nodes)]
    counts = np.bincount(dropped.ravel(), minlength=graph.num_nodes)
    mended = tuple(range(100, 400, 3))
    accuracy = Accuracy(before=(0.5,), after=(0.8,), mended=mended)
    record = PurificationRecord.of(graph, purification, truth=truth, accuracy=accuracy)
    record.save(tmp_path / "record.npz")
    page = Page(written(PurificationRecord.load(tmp_path / "record.npz"), tmp_path))
    listed = page.data["listed"]
    assert listed[0] == min(mended, key=lambda node: (-counts[node], node))
    assert [counts[node] for node in listed[:5]] == sorted(counts[list(mended)], reverse=True)[:5]
    assert "every model had wrong before and has right after" in page.text


def test_the_same_subject_gives_the_same_bytes(tmp_path):
    graph = block_model(80, mean_degree=6, seed=0)
    one, other = (PurificationRecord.of(graph, GARNET(rank=6).purify(graph)) for _ in range(2))
    # What a stage cost is no property of the graph.
    other = replace(other, summary=one.summary)
    assert written(one, tmp_path) == written(other, tmp_path)


def test_nodes_asked_for_are_there(result, tmp_path):
    page = Page(written(result, tmp_path, nodes=[5, 2484]))
    assert page.data["listed"][:2] == [5, 2484]
    assert len(page.data["listed"]) >= 20
    assert (
        "The list begins with those asked for, then with the nodes that lost the most adversarial edges." in page.text
    )


def test_a_node_named_like_a_script_stays_text(tmp_path):
    graph = block_model(80, mean_degree=6, seed=0)
    names = np.array([f"{NASTY}{number}" for number in range(80)])
    graph = as_graph(graph, names=names)
    result = PurificationRecord.of(graph, GARNET(rank=6).purify(graph), command=NASTY)
    text = written(result, tmp_path, title=NASTY)
    page = Page(text)
    scripts = [attrs for tag, attrs in page.elements if tag == "script"]
    assert scripts == [{"type": "application/json", "class": "data"}, {}]
    assert not [tag for tag, _ in page.elements if tag == "img"]
    assert page.data["graph"]["names"] == names.tolist()
    assert any(NASTY in word for word in page.words)
    given = [f"<b>{number}" for number in range(80)]
    assert Page(written(result, tmp_path, node_names=given)).data["graph"]["names"] == given


def test_embedded_data_come_back_and_cannot_end_their_script():
    data = {"names": [NASTY, "<!--", "]]>", "\u2028", "\ud800", "&lt;"], "none": None}
    text = str(embedded(data))
    assert not set("<>&") & set(text)
    assert json.loads(text) == data


def test_a_name_that_is_no_text_can_still_be_written(tmp_path):
    graph = as_graph(
        block_model(40, mean_degree=5, seed=0), names=np.array([f"\ud800{number}" for number in range(40)])
    )
    assert "Neighbourhoods" in written(PurificationRecord.of(graph, GARNET(rank=4).purify(graph)), tmp_path)


def test_a_graph_without_labels_or_changes(tmp_path):
    plain = as_graph(replace(block_model(60, mean_degree=5, seed=0), labels=None, split=None))
    assert "same label" not in Page(written(PurificationRecord.of(plain, GARNET(rank=5).purify(plain)), tmp_path)).words
    dense = as_graph(np.ones((40, 40)) - np.eye(40))
    same = GARNET(rank=5, support=0.0).purify(dense)
    assert same.ledger.counts == {"kept": dense.num_edges, "dropped": 0, "added": 0}
    page = Page(written(PurificationRecord.of(dense, same), tmp_path))
    assert "dropped 0 and added 0" in page.text
    assert len(page.data["listed"]) == 20
    assert "The list begins with the nodes that have the most edges." in page.text


def test_little_things_are_said_well(tmp_path):
    edges = np.concatenate([block_model(80, mean_degree=6, seed=0).edges, [[80], [81]]], axis=1)
    pair = as_graph((edges, 82), symmetrize=True)
    purified = GARNET(rank=6, support=0.3).purify(pair)
    # Nothing is known of two nodes that only know each other.
    assert np.isinf(purified.ledger.kept_scores).any()
    assert "the attack's" in _histogram(purified, pair.edges[:, :5])
    result = PurificationRecord.of(pair, purified, accuracy=Accuracy(before=(0.5,), after=(0.75,)))
    assert "Mean over 1 model on the test nodes." in Page(written(result, tmp_path)).text
    odd = replace(result, threshold=-0.0, values=result.values[:1])
    page = Page(written(odd, tmp_path))
    assert "gamma = 0" in page.words
    assert "The leading eigenvalue of the normalised adjacency, before and after." in page.text
    alone = replace(result, weights_after=np.zeros_like(result.weights_after))
    text = Page(written(alone, tmp_path)).text
    assert "The 6 leading eigenvalues of the normalised adjacency before purification." in text
    only_new = replace(result, weights_after=np.ones_like(result.weights_after))
    assert "nodes that got the most edges" in Page(written(only_new, tmp_path)).text


@pytest.mark.parametrize(("end", "tau"), [("algebraic", 0.0), ("magnitude", "mean")])
def test_the_spectrum_after_is_that_of_the_large_components(end, tau):
    graph = block_model(250, mean_degree=5, seed=1)
    parameters = {"normalize": True, "tau": tau, "end": end}
    found = leading_values(graph, 10, parameters)
    component = connected_components(graph.adjacency)[1]
    large = np.flatnonzero(np.bincount(component)[component] > 10)
    assert len(large) < graph.num_nodes
    matrix = normalized_adjacency(graph, graph.degrees.mean() if tau == "mean" else 0.0).toarray()
    values = np.linalg.eigvalsh(matrix[np.ix_(large, large)])
    order = np.argsort(-np.abs(values) if end == "magnitude" else -values)
    assert found == pytest.approx(values[order[:10]], abs=1e-6)


def test_a_subject_nobody_knows_is_refused(result, tmp_path):
    for subject in (3, [], "result.npz", [1, 2]):
        with pytest.raises(ParameterError, match="A report is of"):
            write_report(subject, tmp_path / "report.html")
    with pytest.raises(ParameterError, match="2485, one for each node"):
        write_report(result, tmp_path / "report.html", node_names=["a"])
    with pytest.raises(ParameterError, match="0 to 2484"):
        write_report(result, tmp_path / "report.html", nodes=[2485])
    with pytest.raises(GarnetError, match="does not exist"):
        write_report(result, tmp_path / "nowhere" / "report.html")
    assert not list(tmp_path.iterdir())


def audit_of(graph, **changed):
    m = graph.num_edges
    rng = np.random.default_rng(1)
    found = {
        "graph": graph,
        "edges": graph.edges,
        "suspicion": rng.random(m),
        "reasons": {"spectral_score": rng.random(m), "because": np.array(["<i>far</i>"] * m)},
        "nodes": rng.random(graph.num_nodes),
        "weights": {},
        "share": 0.25,
        "power": 0.9,
        "planted": rng.random(20),
        "stages": (Stage("reasons", 0.001, 10**9), Stage("plant", 1.5, 2 * 10**9)),
    }
    return Audit(**found | changed)


def test_an_audit_shows_the_most_suspicious_edges_first(tmp_path):
    audit = audit_of(block_model(100, mean_degree=6, seed=3))
    page = Page(written(audit, tmp_path, command="garnet audit 'my graph.npz'"))
    order = np.argsort(-audit.suspicion)[:50]
    listed = re.findall(r"(\d+) – (\d+) <i>far</i> [01]\.\d{3}", page.text)
    assert [(int(u), int(v)) for u, v in listed] == [tuple(edge) for edge in audit.edges[:, order].T.tolist()]
    assert "edge reason suspicion spectral score" in page.text
    doubted = int(audit.doubted.sum())
    assert f"{doubted:,} ({100 * doubted / audit.graph.num_edges:.1f} %) are more likely made up than not." in page.text
    assert "<i>far</i>" in page.words
    lowest = np.argsort(audit.nodes)[:20]
    assert [word for word in page.words if word in {f"{one:.3f}" for one in audit.nodes[lowest]}][:20] == [
        f"{one:.3f}" for one in audit.nodes[lowest]
    ]
    assert page.data["graph"]["marked"] == "".join(str(int(one)) for one in audit.doubted)
    assert [name for name, _ in page.data["panels"]] == ["Graph"]
    assert "1.50 s in all; the process held at most 2,000 MB." in page.text
    assert "reasons under 0.01 s" in page.text
    for said in ("garnet audit 'my graph.npz'", audit.graph.fingerprint, np.__version__):
        assert said in page.text


def test_an_audit_that_doubts_nothing_shows_the_most_suspicious_nodes(tmp_path):
    audit = audit_of(block_model(100, mean_degree=6, seed=3))
    audit = replace(audit, suspicion=audit.suspicion / 3)
    sums = sum(np.bincount(ends, weights=audit.suspicion, minlength=100) for ends in audit.edges)
    page = Page(written(audit, tmp_path))
    assert page.data["listed"] == np.argsort(-sums)[:20].tolist()
    assert "nodes that have the most suspicion in all" in page.text


def test_an_audit_says_what_it_cannot_say(tmp_path):
    graph = block_model(100, mean_degree=6, seed=3)
    hardly = "made-up edges can hardly be told from others"
    assert hardly not in Page(written(audit_of(graph, power=0.66), tmp_path)).text
    assert hardly in Page(written(audit_of(graph, power=0.65), tmp_path)).text
    full = audit_of(graph, planted=np.zeros(0), suspicion=np.zeros(graph.num_edges))
    text = Page(written(full, tmp_path)).text
    assert "No edge was planted into this graph to compare with, so nothing can be said of" in text
    assert "more likely made up than not." not in text.partition("How suspicion")[0]


def record(accuracies, *, seconds=1.0, status="done", **cell):
    facts = Cell(**{"graph": "cora", "backbone": "gcn", "model": "default", "seeds": (0, 1)} | cell)
    return Record(
        key=facts.key,
        cell=facts.facts(),
        status=status,
        reason="it <b>broke</b>" if status == "failed" else "",
        values={"accuracy": accuracies} if accuracies else {},
        mean=float(np.mean(accuracies)) if accuracies else None,
        seconds={"total": seconds},
        seeds=(0, 1),
    )


def test_a_study_has_curves_sweeps_runtimes_and_the_papers_numbers(tmp_path):
    records = [
        *(record([80 - 100 * b, 82 - 100 * b], attack="metattack", budget=b, defense="none") for b in (0.0, 0.1, 0.2)),
        *(record([80.0, 81.0], attack="metattack", budget=b, defense="garnet") for b in (0.0, 0.2)),
        *(
            record([70 + k, 71 + k], attack="metattack", budget=0.2, defense="garnet", parameters=(("k", k),))
            for k in (5, 10, 20)
        ),
        record([], attack="metattack", budget=0.25, defense="none", status="failed"),
    ]
    text = written(records, tmp_path, title="Mine & yours")
    page = Page(text)
    titles = [word for word in page.words if word.startswith("cora, metattack")]
    assert "cora, metattack, gcn" in titles
    assert "cora, metattack 0.2, garnet: k" in titles
    assert "8 cells of 9 measured on cora; the highest accuracy is 90.5 %" in page.text
    assert "1 failed" in page.text
    assert "Runtimes" in page.text
    assert "it <b>broke</b>" in page.text
    assert "81.0 ± 1.4 (" in page.text  # the paper has a number for a GCN on clean Cora


def test_curves_hold_the_mean_of_the_seeds(tmp_path):
    records = [record([10 * b, 10 * b + 2], attack="nettack", budget=b, defense="none") for b in (5.0, 1.0, 3.0)]
    page = Page(written(records, tmp_path))
    assert any("none 11 at 1 to 51 at 5" in word for word in page.words)


def test_a_table_of_many_columns_is_cut_into_several_with_the_labels():
    heads = ["name", *(f"h{number}" for number in range(23))]
    tables = str(table(heads, [["a", *range(100, 123)], ["b", *range(200, 223)]])).split("</table>")[:-1]
    shown = [re.findall(r">([^<>]+)<", one) for one in tables]
    assert [one[0] for one in shown] == ["name"] * len(tables)
    assert all(len(one) <= 3 * 11 for one in shown)
    numbers = [cell for one in shown for cell in one if cell.isdigit()]
    assert sorted(numbers) == [str(number) for number in (*range(100, 123), *range(200, 223))]
    assert [cell for one in shown for cell in one if cell.startswith("h")] == heads[1:]


@pytest.fixture(scope="module")
def model():
    graph = block_model(300, mean_degree=8, seed=0)
    graph = as_graph(graph, split=random_split(graph.labels, train=0.2, val=0.2, seed=0))
    logits = torch.randn(300, int(graph.labels.max()) + 1, generator=torch.Generator().manual_seed(0))
    logits[torch.arange(300), torch.from_numpy(graph.labels)] += 2
    return Predictor(graph, logits, seed=3, epoch=7)


def test_a_model_is_told_by_class(model, tmp_path):
    page = Page(written(model, tmp_path))
    assert f"right on {100 * model.accuracy():.1f} % of {len(model.graph.split.test):,} test nodes" in page.text
    confusion = model.confusion()
    for one, row in enumerate(confusion):
        assert f"{one} {row.sum():,} {100 * row[one] / row.sum():.0f} %" in page.text
    assert model.graph.fingerprint in page.text
    assert torch.__version__ in page.text


def test_a_model_without_test_nodes_or_with_nodes_to_show(model, tmp_path):
    with pytest.raises(GraphError, match="labels and test nodes"):
        write_report(replace(model, graph=replace(model.graph, split=None)), tmp_path / "report.html")
    with pytest.raises(ParameterError, match="leave them out"):
        write_report(model, tmp_path / "report.html", nodes=[1])


def committee(n, members=3, seed=0):
    """A predictor of members that are all at odds with each other at some nodes, and agree at others."""
    graph = block_model(n, classes=3, mean_degree=4, seed=seed)
    graph = as_graph(graph, split=random_split(graph.labels, train=0.2, val=0.2, seed=0))
    generator = torch.Generator().manual_seed(seed)
    said = torch.randn(members, n, 3, generator=generator)
    said[:, torch.arange(n), torch.from_numpy(graph.labels)] += 2
    said = said.log_softmax(dim=2)
    doubt = torch.rand(members, n, generator=generator)
    say = (-3 * doubt).log_softmax(dim=0)
    scores = torch.logsumexp(said + say[..., None], dim=0)
    names = [f"member {number}" for number in range(members)]
    votes = Votes.of(names, torch.zeros(members), said=said, say=say, doubt=doubt, chosen=scores.argmax(dim=1))
    return Predictor(graph, scores, votes=votes)


def test_a_committee_shows_its_members_and_who_decided_at_any_node(tmp_path):
    model = committee(200)
    votes, page = model.votes, Page(written(model, tmp_path, nodes=[17]))
    for name, share in zip(votes.members, votes.decided_shares, strict=True):
        assert f"{name} {100 * share:.1f}" in page.text
    data = page.data
    assert data["members"] == list(votes.members)
    assert data["decided"] == votes.decided.tolist()
    assert data["said"] == votes.predictions.tolist()
    assert data["chosen"] == model.predictions().tolist()
    assert np.array(data["say"]) == pytest.approx(100 * votes.say, abs=0.51)
    assert np.array(data["doubt"]) == pytest.approx(100 * votes.doubt, abs=0.51)
    options = [int(attrs["value"]) for tag, attrs in page.elements if tag == "option"]
    against = votes.disagreement(model.predictions())
    assert options[0] == 17
    assert against[options[1]] == against.max()
    with pytest.raises(ParameterError, match="0 to 199"):
        write_report(model, tmp_path / "report.html", nodes=[200])


def test_the_page_of_a_large_committee_is_small_and_holds_what_is_disputed_or_asked_for(tmp_path):
    model = committee(100_000, members=5)
    agreed = int(np.flatnonzero(model.votes.disagreement(model.predictions()) == 0)[0])
    text = written(model, tmp_path, nodes=[agreed])
    assert len(text.encode()) < 150_000
    data = Page(text).data
    assert data["ids"][0] == agreed
    assert len(data["ids"]) == len(set(data["ids"])) < 1000
    against = model.votes.disagreement(model.predictions())
    assert against[data["ids"][1:]].min() >= np.sort(against)[-len(data["ids"])]


def test_members_that_always_agree_are_no_trouble(tmp_path):
    model = committee(50, members=1)
    assert "the same class, at every node" in Page(written(model, tmp_path)).text


def test_names_of_a_committee_s_nodes_stay_text(tmp_path):
    text = written(committee(50), tmp_path, node_names=[f"{NASTY}{number}" for number in range(50)])
    page = Page(text)
    assert page.data["names"][7] == f"{NASTY}7"
    assert "img" not in {tag for tag, _ in page.elements}


@pytest.fixture
def call():
    app = typer.Typer()
    app.command()(report)

    def run(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


def test_the_command_reads_results_records_and_models(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = as_graph(block_model(80, mean_degree=6, seed=0), names=np.array([f"n{number}" for number in range(80)]))
    PurificationRecord.of(graph, GARNET(rank=6).purify(graph)).save("result.npz")
    assert call("result.npz", "-o", "one.html", "--node", "n7", "--node", "3", "--title", "T & T").exit_code == 0
    page = Page(Path("one.html").read_text())
    assert page.data["listed"][:2] == [7, 3]
    assert "T & T" in page.words
    Path("RESULT.NPZ").write_bytes(Path("result.npz").read_bytes())
    assert call("RESULT.NPZ", "-o", "same.HTML").exit_code == 0
    lines = [record([50.0, 60.0], defense="none", attack="metattack", budget=b).line() for b in (0.0, 0.2)]
    Path("records.jsonl").write_text("\n".join(lines))
    assert call("records.jsonl", "-o", "two.html").exit_code == 0
    assert "Accuracy against budget" in Page(Path("two.html").read_text()).words


def test_the_command_says_what_became_of_a_known_attack(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clean = block_model(80, mean_degree=6, seed=0)
    absent = np.stack(np.nonzero(np.triu(clean.adjacency.toarray() == 0, 1)))[:, ::60]
    attack = Perturbation.of(clean, np.concatenate([absent[:, ::-1], clean.edges[:, :3]], axis=1))
    attack.save("attack.npz")
    PurificationRecord.of(attack.apply(clean), GARNET(rank=6).purify(attack.apply(clean))).save("result.npz")
    assert call("result.npz", "-o", "report.html", "--truth", "attack.npz").exit_code == 0
    page = Page(Path("report.html").read_text())
    whole = page.data["graph"]
    marked = [place for place, one in enumerate(whole["marked"]) if one == "1"]
    ends = {(whole["first"][place], whole["second"][place]) for place in marked}
    assert ends == {tuple(edge) for edge in absent.T.tolist()}
    assert f"of the {absent.shape[1]} adversarial edges" in page.text


def test_the_command_of_a_study_shows_its_cells_alone(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    lines = [record([50.0, 60.0], defense=name, attack="metattack", budget=0.2).line() for name in ("none", "garnet")]
    Path("results/mine.jsonl").write_text("\n".join(lines))
    Path("mine.toml").write_text(
        'title = "Only one"\nseeds = 2\n[[cells]]\ngraph = "cora"\nattack = "metattack"\nbudget = [0.2, 0.1, 0.05]\n'
        'defense = "none"\nbackbone = "gcn"\n'
    )
    assert call("mine.toml", "-o", "study.html").exit_code == 0
    text = Page(Path("study.html").read_text()).text
    assert "1 cell of 3 measured" in text
    assert "Only one" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.npz", "-o", "report.html"), "no such file"),
        (("missing.jsonl", "-o", "report.html"), "no records"),
        (("graph.csv", "-o", "report.html"), "Cannot tell"),
        (("graph.npz", "-o", "report.html"), "garnet purify --result"),
        (("result.npz", "-o", "report.pdf"), "an .html file"),
        (("missing.npz", "-o", "nowhere/report.html"), "nowhere does not exist"),
        (("result.npz", "-o", "report.html", "--truth", "other.npz"), "give its own perturbation"),
        (("records.jsonl", "-o", "report.html", "--truth", "other.npz"), "leave --truth out"),
        (("result.npz", "-o", "report.html", "--node", "nobody"), "no node called 'nobody'"),
        (("result.npz", "-o", "report.html", "--node", "99"), "0 to 79"),
    ],
)
def test_the_command_says_in_one_sentence_what_is_wrong(call, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    graph = block_model(80, mean_degree=6, seed=0)
    graph.save("graph.npz")
    PurificationRecord.of(graph, GARNET(rank=6).purify(graph)).save("result.npz")
    Perturbation.of(graph, np.array([[0], [79]])).save("other.npz")
    Path("records.jsonl").write_text(record([50.0], defense="none").line())
    answer = call(*arguments)
    assert isinstance(answer.exception, GarnetError)
    assert message in str(answer.exception)
    assert not Path("report.html").exists()
