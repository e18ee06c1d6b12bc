"""The studies that come with the project, and the tables made of their records."""

import json
import runpy
from pathlib import Path

import pytest

from garnet.bench.record import read_records
from garnet.bench.study import load_study

ROOT = Path(__file__).resolve().parents[3]
OTHERS = ("tsvd", "prognn", "gnnguard")
STUDIES = sorted((ROOT / "studies").glob("*.toml"))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_can_be_read_and_repeats_no_cell(path):
    study = load_study(path)
    assert len({cell.key for cell in study.cells}) == len(study.cells)


def test_every_table_and_ablation_has_a_study():
    names = " ".join(path.stem for path in STUDIES)
    for wanted in ("table-2", "table-3", "table-7", "table-8", "table-9", "table-10", "table-11", "table-12"):
        assert wanted in names
    for wanted in ("figure-1", "ablation-refinement", "ablation-k", "ablation-gamma", "citeseer"):
        assert wanted in names


@pytest.mark.parametrize("path", sorted((ROOT / "results").glob("*.jsonl")), ids=lambda path: path.stem)
def test_records_are_whole_and_name_no_folder(path):
    records, damages = read_records(path)
    assert records
    assert not damages
    assert all(record.status == "done" for record in records)
    text = path.read_text()
    assert not any(word in text for word in ("/home/", "/tmp/", "/work/"))
    assert all(json.loads(line)["machine"]["processor"] for line in text.splitlines())


def test_the_tables_in_the_docs_are_those_of_the_records():
    script = runpy.run_path(str(ROOT / "scripts" / "render_results.py"))
    pages = [page for page in (ROOT / "docs" / "results").glob("*.md") if "<!-- study:" in page.read_text()]
    assert len(pages) == 4
    for page in pages:
        for found in script["PLACE"].finditer(page.read_text()):
            assert found[0] == f"{found[1]}\n{script['table'](found['name'])}\n{found[3]}", found["name"]


def figures(name):
    return json.loads((ROOT / "results" / f"{name}.json").read_text())["figures"]


def row(*parts):
    return "".join(f" {part} |" for part in parts)


@pytest.mark.parametrize("name", ["recipe-r50", "recipe-r500", "recipe-r50-regularised"])
def test_the_speed_of_the_readme_is_that_of_the_record(name):
    found = figures(name)
    usual, ours = found["usual"], found["garnet"]
    stages = [f"{usual[stage]:.1f} → {ours[stage]:.1f} s" for stage in ("embed", "neighbours")]
    times = (f"{usual['seconds']:.0f} s", f"{ours['seconds']:.1f} s", f"**{found['ratio']:.1f}×**")
    assert row(*times, *stages, f"{ours['recall']:.3f}") in (ROOT / "README.md").read_text()


def test_what_else_the_readme_times_is_in_the_records():
    lines = [line for line in (ROOT / "README.md").read_text().splitlines() if line.endswith(".py` |")]
    growth, products, speeds = figures("growth"), figures("products"), figures("defenses")
    training, cuda = figures("training"), figures("training-cuda")["ten seeds on cora"]
    step, attack = training["step on purified pubmed"], figures("attack-metattack")
    fastest = min(run["seconds"] for run in products["runs"])
    slower = [speeds[graph][name]["times_garnet"] for name in OTHERS for graph in ("cora", "squirrel")]
    told = [
        f"{growth['small']['cora']:.1f} s; {growth['small']['pubmed']:.1f} s",
        f"the power {growth['slope']:.2f} of",
        f"{max(stage['peak_gb'] for stage in figures('memory-r50')['stages'].values()):.1f} GB at most",
        f"{products['arxiv']['seconds']:.1f} s",
        f"{fastest:.1f} s, with a neighbour recall of {products['recall of 10,000']:.3f}",
        f"{products['training']['seconds']:.0f} s",
        f"{figures('audit-cuda')['drawn']['seconds']:.0f} s",
        "{:.0f} and {:.0f} times as long, Pro-GNN {:.0f} and {:.0f}, GNNGuard {:.0f} and {:.0f}".format(*slower),
        "{:.0f} times less than PyG on `edge_index`, {:.0f} times less".format(*step["ratio"].values()),
        f"{training['ten seeds on cora']['ratio']:.1f} times less than in a row; {cuda['ratio']:.1f} times less",
        f"{1000 * attack['seconds_a_flip']:.0f} ms, {round(attack['ratio'], -1):.0f} times less",
    ]
    assert len(lines) == len(told)
    for line, expected in zip(lines, told, strict=True):
        assert expected in line


def test_the_tables_of_scale_are_those_of_the_records():
    page = (ROOT / "docs" / "scale.md").read_text().replace("**", "")
    products = figures("products")
    for run in (*products["runs"], products["default"], products["arxiv"]):
        assert row(*(f"{run[name]:.1f} s" for name in ("embed", "neighbours", "prune", "seconds"))) in page
    for name in ("disk-arxiv", "disk-products", "disk-products-default"):
        run = figures(name)
        tile, embed, near, prune = (f"{stage['seconds']:,.0f} s" for stage in run["stages"])
        near = near if run["base_edges"] else "–"
        assert row(f"{run['peak_bytes'] / 1e9:.1f} GB", run["parts"], tile, embed, near, prune) in page
    for run in figures("cluster")["runs"]:
        seconds = [*run["stages"].values(), run["seconds"]]
        assert row(*(f"{one:.1f} s" for one in seconds)) in page
    agreement = figures("cuda")["agreement"]["arxiv"]["edge_jaccard"]
    assert f"share {agreement:.2f} of their edges" in page


SCORES = ["audit", "audit without labels", "gradient of the graphical model", "spectral distance", "shared neighbours"]
SCORES += ["cosine of features", "Jaccard of features", "degree product, small", "degree product, large"]
SCORES += ["gradient of a GCN"]


def test_the_tables_of_the_audit_are_those_of_the_record():
    page = (ROOT / "docs" / "results" / "audit.md").read_text().replace("**", "")
    for name, found in figures("audit").items():
        if name.endswith(" clean"):
            rewired = (f"{100 * found['null doubted']:.2f} %", f"{found['null power']:.2f}")
            parts = (
                f"{100 * found['doubted']:.2f} %",
                f"{100 * found['share']:.1f} %",
                f"{found['power']:.2f}",
                *rewired,
            )
            assert f"| {name.removesuffix(' clean')} |{row(*parts)}" in page
            continue
        head = f"| {name} | {100 * found['false']:.1f} % |"
        for kind in ("auc", "ap"):
            assert head + row(*(f"{found['scores'][score][kind]:.3f}" for score in SCORES)) in page
        shares = [f"{100 * found['share']:.1f} %", f"{100 * found['doubted of false']:.0f} %"]
        shares += [f"{100 * found['doubted of true']:.1f} %", f"{100 * found['false alarms']:.0f} %"]
        shares += [f"{100 * found['false alarms, estimated']:.0f} %", f"{found['power']:.2f}"]
        assert head + row(*shares, f"{found['seconds']:.1f}") in page
