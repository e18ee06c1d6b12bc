"""The report as a person uses it: in a browser, with a mouse, a keyboard and a phone."""

import io
import shutil
from dataclasses import fields

import numpy as np
import pytest

from garnet import GARNET, as_graph
from garnet.audit import Audit
from garnet.backbones import GCN
from garnet.bench.attempt import Case
from garnet.bench.cell import Cell
from garnet.bench.outcomes import Battery
from garnet.bench.record import Record
from garnet.bench.verdict import Stress
from garnet.datasets import block_model, contextual_block_model, random_split
from garnet.defenses import Committee, Purified
from garnet.report.page import write_report
from garnet.report.purification_record import Accuracy, PurificationRecord
from garnet.training.loop import Training

Image = pytest.importorskip("PIL.Image", reason="Pillow, which reads screenshots, is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright, which drives a browser, is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]

# Where the middle of a line is on the screen.
MIDDLE = """line => {
  const at = line.getScreenCTM(), mean = (a, b) => (Number(line.getAttribute(a)) + Number(line.getAttribute(b))) / 2;
  return [at.a * mean("x1", "x2") + at.e, at.d * mean("y1", "y2") + at.f];
}"""


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    graph = block_model(150, mean_degree=6, seed=4)
    names = np.array([f"<script>window.broken = 1</script>{number}" for number in range(150)])
    graph = as_graph(graph, names=names)
    result = PurificationRecord.of(
        graph,
        GARNET(rank=8, support=0.3).purify(graph),
        truth=graph.edges[:, ::5],
        accuracy=Accuracy(before=(0.4, 0.5, 0.6), after=(0.7, 0.8, 0.75)),
    )
    write_report(result, folder / "result.html", nodes=[11, 12])
    crowded = PurificationRecord.of(*star(), truth=star()[0].edges[:, 250:260])
    write_report(crowded, folder / "star.html", nodes=range(30))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("garnet.report.neighbourhood._WHOLE", 10)
        write_report(result, folder / "large.html", nodes=range(150))
        write_report(crowded, folder / "large-star.html", nodes=range(30))
    split = random_split(graph.labels, train=0.3, val=0.2, seed=0)
    fitted = Committee(
        members=(None, GARNET(rank=8), GARNET(rank="low", k=30, support=0.25)),
        backbone=GCN(hidden=4), training=Training(epochs=5, lr=0.05),
    ).fit(as_graph(graph, split=split))  # fmt: skip
    write_report(fitted, folder / "committee.html")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("garnet.report.committee._WHOLE", 10)
        patch.setattr("garnet.report.committee._MOST_NODES", 25)
        write_report(fitted, folder / "large-committee.html", node_names=[f"n{number}" for number in range(150)])
    rng = np.random.default_rng(0)
    m = graph.num_edges
    audit = Audit(
        graph=graph,
        edges=graph.edges,
        suspicion=rng.random(m),
        reasons={f"reason_{number}": rng.random(m) for number in range(9)} | {"because": np.array(["features"] * m)},
        nodes=rng.random(150),
        weights={},
        planted=rng.random(9),
        **{one.name: 0.9 for one in fields(Audit) if one.type == "float"},
    )
    write_report(audit, folder / "audit.html", command="garnet audit graph.npz")
    hub = audit_of_a_hub()
    write_report(hub, folder / "hub.html")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("garnet.report.neighbourhood._WHOLE", 10)
        write_report(hub, folder / "large-hub.html")
    cells = [
        Cell(graph="cora", backbone="gcn", model="default", seeds=(0,), defense="none", attack="metattack", budget=b)
        for b in np.linspace(0.01, 0.4, 40).round(2).tolist()
    ]
    records = [
        Record(key=one.key, cell=one.facts(), status="done", values={"accuracy": [80.0]}, mean=80.0, seconds={})
        for one in cells
    ]
    write_report(records, folder / "study.html")
    write_report(stressed(), folder / "stress.html")
    return folder


def stressed():
    """A stress test whose attack that knows the defence does worse than one that does not."""
    made = contextual_block_model(100, classes=3, mean_degree=6, features=8, seed=0)
    graph = as_graph(made, split=random_split(made.labels, train=0.3, val=0.2, seed=0))
    case = Case(graph=graph, defense=Purified(None), graph_name="<script>window.broken = 1</script>")
    clean = {"evasion": 80.0, "poisoning": 80.0, "features": 50.0, "largest_class": 40.0}
    records = [
        case.record(case.facts("clean", (0,)), {}, status="done", values=clean | {"test_nodes": 50, "edges": 300})
    ]
    for attack, adaptive, left in (("random", False, 79.0), ("prbcd", False, 40.0), ("adaptive-pgd", True, 70.0)):
        for share in (2, 5, 10, 20):
            known = {"attack": attack, "adaptive": adaptive, "allowed": f"{share}%", "budget": share / 100}
            values = {"evasion": left - share, "poisoning": left, "allowed": 3 * share, "flips": 3 * share}
            facts = case.facts("attack", (0,), **known, threat="evasion" if adaptive else "both")
            records.append(case.record(facts, {"attack": 1.0}, status="done", values=values))
    return Stress(Battery(tuple(records)))


def star():
    """A hub of 400 spokes, some of which are joined, under names that are the numbers of their neighbours."""
    spokes = np.stack([np.zeros(400, dtype=np.int64), np.arange(1, 401)])
    rim = np.stack([np.arange(1, 400, 2), np.arange(2, 401, 2)])
    graph = as_graph((np.concatenate([spokes, rim], axis=1), 401), symmetrize=True, names=np.arange(1, 402))
    return graph, GARNET(rank=6, k=30, support=0.3).purify(graph)


def audit_of_a_hub():
    """A node of 400 edges, the first 30 of which are suspicious, the first the most."""
    graph, _ = star()
    m = graph.num_edges
    suspicion = np.where(np.arange(m) < 30, 0.9, 0.4) - np.arange(m) / 10_000
    return Audit(
        graph=graph, edges=graph.edges, suspicion=suspicion, reasons={"because": np.array(["features"] * m)},
        nodes=np.ones(401), weights={}, planted=np.full(9, 0.9), share=0.1, power=0.9,
    )  # fmt: skip


@pytest.fixture
def visit(browser, folder):
    """Open a report; whatever it logs, throws or asks a host for fails the test."""
    contexts, trouble = [], []

    def run(name="result.html", **options):
        contexts.append(
            browser.new_context(**{"viewport": {"width": 1100, "height": 800}, "color_scheme": "light"} | options)
        )
        page = contexts[-1].new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or trouble.append(request.url))
        page.goto((folder / name).as_uri())
        return page

    yield run
    for context in contexts:
        context.close()
    assert not trouble


def box(page):
    return page.locator("svg.net").first.get_attribute("viewBox")


def test_it_opens_with_a_picture_before_and_after(visit):
    page = visit()
    before, after = page.locator("svg.net").all()
    assert before.locator(".ink.marked").count() > 0
    assert before.locator(".ink.new").count() == 0
    assert after.locator(".ink.new").count() > 0
    assert after.locator(".ink.gone").count() == 0
    assert before.locator(".node.middle").count() == after.locator(".node.middle").count() == 1
    assert page.evaluate("window.broken") is None
    assert "<script>window.broken = 1</script>11" in page.locator(".status").text_content()


def seek(page, text):
    page.locator(".seek").fill(text)
    page.locator(".seek").press("Enter")
    return page.locator(".status").text_content()


def drawn(page):
    """Of each picture the nodes by id and place, and the edges by kind."""
    return page.locator("svg.net").evaluate_all(
        """nets => nets.map(net => [
          [...net.querySelectorAll(".node")].map(spot => ["id", "node"].map(name => Number(spot.dataset[name]))
            .concat(["cx", "cy"].map(name => Number(spot.getAttribute(name))))).sort((a, b) => a[0] - b[0]),
          [...net.querySelectorAll(".ink")].map(line => ["x1", "y1", "x2", "y2", "class"].map(name =>
            line.getAttribute(name)).join(" ")).sort(),
        ])"""
    )


def test_each_picture_shows_what_is_within_two_edges_in_its_own_graph(visit):
    page = visit()
    data = page.evaluate("JSON.parse(document.querySelector('script.data').textContent)")
    graph, differ = data["graph"], 0
    for node in data["listed"]:
        page.locator(".pick").select_option(value=str(node))
        if "not shown" in page.locator(".status").text_content():
            continue
        shown = []
        for (nodes, _), (_, absent) in zip(drawn(page), data["panels"], strict=True):
            edges = zip(graph["first"], graph["second"], graph["kinds"], strict=True)
            there = [{first, second} for first, second, kind in edges if int(kind) != absent]
            near = {node}.union(*(edge for edge in there if node in edge))
            assert {one[0] for one in nodes} == near.union(*(edge for edge in there if edge & near))
            shown.append({one[0] for one in nodes})
        differ += shown[0] != shown[1]
    assert differ


def test_nodes_are_drawn_apart_and_inside(visit):
    page = visit()
    for node in range(0, 150, 10):
        seek(page, str(node))
        spots = {tuple(spot[2:]) for nodes, _ in drawn(page) for spot in nodes}
        places = np.array(sorted(spots))
        assert np.abs(places).max() <= 1000
        assert (0, 0) in spots
        gaps = np.linalg.norm(places[:, None] - places[None], axis=2)
        # A node of the second ring has a radius of 17.
        assert gaps[~np.eye(len(places), dtype=bool)].min() > 17


@pytest.mark.parametrize(("small", "large"), [("result.html", "large.html"), ("star.html", "large-star.html")])
@pytest.mark.slow
def test_a_node_looks_the_same_whether_the_graph_is_there_as_a_whole_or_in_parts(visit, small, large):
    whole, parts = visit(small), visit(large)
    for node in [0, 1, 7, 11, 29]:
        for page in (whole, parts):
            page.locator(".pick").evaluate(
                """(pick, id) => {
                  pick.add(new Option(id, id)); pick.value = id; pick.dispatchEvent(new Event("change"));
                }""",
                str(node),
            )
        assert whole.locator(".status").text_content() == parts.locator(".status").text_content()
        assert [nodes for nodes, _ in drawn(whole)] == [nodes for nodes, _ in drawn(parts)]
        assert [edges for _, edges in drawn(whole)] == [edges for _, edges in drawn(parts)]


def test_a_hub_shows_edges_of_every_kind_and_says_that_there_are_more(visit):
    page = visit("star.html")
    said = seek(page, "1")
    assert "before 100 nodes and 148 edges shown, after " in said
    assert " edges shown. 301 more nodes not shown." in said
    before, after = page.locator("svg.net").all()
    assert before.locator(".ink.marked").count() == 10
    assert before.locator(".tie").count() > 10
    for kind in (".ink:not(.new):not(.gone)", ".ink.new"):
        assert after.locator(kind).count() > 0
    page.locator(".listing summary").click()
    assert page.locator(".listing summary").inner_text() == "Edges of this node that are shown"


def test_a_name_is_found_before_the_number_of_another_node(visit):
    for name in ("star.html", "large-star.html"):
        page = visit(name)
        assert seek(page, "12").startswith("Node 12:")
        assert page.locator(".pick").input_value() == "11"
    assert "401 is not among those in this report" in seek(visit("large-star.html"), "401")
    assert seek(visit("star.html"), "0").startswith("Node 1:")
    # Of a large graph not all names are here, so that a number may be the name of a node that is not.
    assert "0 is not among those" in seek(visit("large-star.html"), "0")


def test_any_node_of_a_small_graph_is_found_by_id_or_name(visit):
    page = visit()
    for node in (0, 77, 149):
        assert f"</script>{node}," in seek(page, str(node))
        assert page.locator(".pick").input_value() == str(node)
    assert "</script>148," in seek(page, "<script>window.broken = 1</script>148")
    assert "There is no node 150 in this graph" in seek(page, "150")


def test_of_a_large_graph_the_nodes_in_the_list_are_found(visit):
    page = visit("large.html")
    assert "</script>149," in seek(page, "<script>window.broken = 1</script>149")
    assert "no such node is not among those" in seek(page, "no such node")


def test_a_name_that_turns_the_writing_turns_only_itself(visit, tmp_path, folder):
    graph = as_graph(block_model(40, mean_degree=5, seed=0), names=np.array([f"\u202e{n}" for n in range(40)]))
    write_report(PurificationRecord.of(graph, GARNET(rank=4).purify(graph)), folder / "turned.html", nodes=[3])
    page = visit("turned.html")
    assert page.locator(".status bdi").text_content() == "\u202e3"
    # Where the words after the name are written: to its right, unless it has turned them.
    gap = page.locator(".status").evaluate(
        """status => {
          const words = document.createRange(), name = status.querySelector("bdi").getBoundingClientRect();
          words.setStart(status.lastChild, 0); words.setEnd(status.lastChild, 8);
          return words.getBoundingClientRect().left - name.right;
        }"""
    )
    assert gap >= -1


def test_a_node_is_picked_from_the_list_by_id_or_by_a_click(visit):
    page = visit()
    page.locator(".pick").select_option(index=1)
    assert "</script>12," in page.locator(".status").text_content()
    page.locator(".seek").fill("11")
    page.locator(".seek").press("Enter")
    assert "</script>11," in page.locator(".status").text_content()
    assert page.locator(".pick").input_value() == "11"
    page.locator(".seek").fill("no such node")
    page.get_by_role("button", name="Show").click()
    assert "There is no node no such node" in page.locator(".status").text_content()
    page.locator("summary").click()
    rows = page.locator(".listing tbody tr").count()
    graph = page.evaluate("JSON.parse(document.querySelector('script.data').textContent).graph")
    assert rows == sum(11 in ends for ends in zip(graph["first"], graph["second"], strict=True))
    neighbour = page.locator("svg.net").first.locator(".node.known:not(.middle)").last
    node = neighbour.get_attribute("data-id")
    neighbour.click()
    assert page.locator(".pick").input_value() == node
    assert f"</script>{node}," in page.locator(".status").text_content()


def test_an_edge_under_the_mouse_tells_its_score_and_kind(visit):
    page = visit()
    net = page.locator("svg.net").first
    net.scroll_into_view_if_needed()
    tip = page.locator(".tip").first
    assert tip.is_hidden()
    tie = net.locator(".tie:has(.marked)").last
    page.mouse.move(*tie.locator(".hit").evaluate(MIDDLE))
    lit = net.locator(".tie.lit")
    assert lit.count() == 1
    assert tip.is_visible()
    first, second, kind, score, *_ = tip.text_content().replace(" – ", "\n").splitlines()
    graph = page.evaluate("JSON.parse(document.querySelector('script.data').textContent).graph")
    ends = {graph["names"].index(first), graph["names"].index(second)}
    pairs = [set(pair) for pair in zip(graph["first"], graph["second"], strict=True)]
    edge = pairs.index(ends)
    assert kind == f"adversarial, {['kept', 'dropped', 'new'][int(graph['kinds'][edge])]}"
    assert graph["marked"][edge] == "1"
    assert score == f"score {graph['scores'][edge]:.4g}"
    page.mouse.move(2, 2)
    assert tip.is_hidden()


def test_a_finger_that_taps_an_edge_is_told_of_it(visit):
    page = visit(viewport={"width": 390, "height": 800}, has_touch=True)
    net = page.locator("svg.net").first
    net.scroll_into_view_if_needed()
    page.touchscreen.tap(*net.locator(".tie .hit").last.evaluate(MIDDLE))
    assert "score" in page.locator(".tip").first.text_content()
    assert page.locator(".tip").first.is_visible()


def test_the_mouse_pans_and_zooms_both_pictures(visit):
    page = visit()
    first, second = page.locator("svg.net").all()
    first.scroll_into_view_if_needed()
    place = first.bounding_box()
    middle = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    start = box(page)
    page.mouse.move(*middle)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    page.wait_for_function("old => document.querySelector('svg.net').getAttribute('viewBox') !== old", arg=start)
    near = [float(one) for one in box(page).split()]
    assert near[2] < float(start.split()[2])
    page.mouse.down()
    page.mouse.move(middle[0] + 80, middle[1] + 30, steps=3)
    page.mouse.up()
    moved = [float(one) for one in box(page).split()]
    assert moved[0] < near[0]
    assert moved[2:] == near[2:]
    assert second.get_attribute("viewBox") == first.get_attribute("viewBox")
    page.get_by_role("button", name="Fit").click()
    assert box(page) == start


def test_the_wheel_alone_scrolls_the_page(visit):
    page = visit()
    page.locator("svg.net").first.hover()
    start, top = box(page), page.evaluate("scrollY")
    page.mouse.wheel(0, 150)
    page.wait_for_function("old => scrollY > old", arg=top)
    assert box(page) == start


def test_only_the_left_button_drags_and_only_while_it_is_down(visit):
    page = visit()
    net = page.locator("svg.net").first
    net.scroll_into_view_if_needed()
    place = net.bounding_box()
    x, y = place["x"] + 3, place["y"] + place["height"] / 2
    start = box(page)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 20, y)  # out of the picture, before it has seen the mouse move
    page.mouse.up()
    page.mouse.move(x + 40, y + 20, steps=3)
    assert box(page) == start
    page.mouse.down(button="right")
    page.mouse.move(x + 80, y + 40, steps=3)
    page.mouse.up(button="right")
    assert box(page) == start


def test_two_fingers_move_and_zoom_and_one_does_not(visit):
    page = visit(viewport={"width": 390, "height": 800}, has_touch=True)
    net = page.locator("svg.net").first
    net.scroll_into_view_if_needed()
    place = net.bounding_box()
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    touch = page.context.new_cdp_session(page)

    def fingers(kind, *points):
        touch.send(
            "Input.dispatchTouchEvent",
            {"type": kind, "touchPoints": [{"x": a, "y": b, "id": number} for number, (a, b) in enumerate(points)]},
        )

    start, top = box(page), page.evaluate("scrollY")
    fingers("touchStart", (x, y))
    for step in range(1, 8):
        fingers("touchMove", (x, y - 12 * step))
    fingers("touchEnd")
    page.wait_for_function("old => scrollY > old", arg=top)
    # The page rolls on for a while.
    page.evaluate(
        """() => new Promise(done => {
          let last = -1;
          (function rest() { if (scrollY === last) done(); else { last = scrollY; setTimeout(rest, 100); } })();
        })"""
    )
    assert box(page) == start
    net.scroll_into_view_if_needed()
    place = net.bounding_box()
    x, y, top = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2, page.evaluate("scrollY")
    fingers("touchStart", (x - 30, y), (x + 30, y))
    for step in range(1, 11):
        fingers("touchMove", (x - 30, y - 6 * step), (x + 30, y - 6 * step))
    left, upper, wide, _ = (float(one) for one in box(page).split())
    assert wide == pytest.approx(2200, rel=0.02)
    assert upper + wide / 2 == pytest.approx(60 * 2200 / place["width"], rel=0.1)
    for step in range(1, 8):
        fingers("touchMove", (x - 30 - 5 * step, y - 60), (x + 30 + 5 * step, y - 60))
    fingers("touchEnd")
    left, upper, wide, _ = (float(one) for one in box(page).split())
    assert wide == pytest.approx(2200 * 60 / 130, rel=0.02)
    assert left + wide / 2 == pytest.approx(0, abs=20)
    assert page.evaluate("scrollY") == top


def test_the_keyboard_reaches_everything(visit):
    page = visit()
    start = [float(one) for one in box(page).split()]
    net = page.locator("svg.net").first
    seen = []
    for _ in range(12):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.className.baseVal ?? document.activeElement.className"))
        if seen[-1] == "net":
            break
    assert {"pick", "seek", "net"} <= set(seen)
    page.keyboard.press("+")
    zoomed = [float(one) for one in box(page).split()]
    assert zoomed[2] < start[2]
    page.keyboard.press("ArrowRight")
    assert float(box(page).split()[0]) > zoomed[0]
    page.keyboard.press("-")
    assert float(box(page).split()[2]) == pytest.approx(start[2])
    page.keyboard.press("0")
    assert [float(one) for one in box(page).split()] == start
    tip = page.locator(".tip").first
    said = []
    for key in ("n", "n", "p"):
        page.keyboard.press(key)
        said.append(tip.text_content())
        assert net.locator(".tie.lit").count() == 1
    assert "score" in said[0]
    assert said[2] == said[0] != said[1]
    page.keyboard.press("Escape")
    assert tip.is_hidden()


@pytest.mark.parametrize(("scheme", "other"), [("light", "dark"), ("dark", "light")])
def test_the_theme_follows_the_system_and_the_button(visit, scheme, other):
    page = visit(color_scheme=scheme)

    def brightness(what="backgroundColor"):
        text = page.evaluate(f"getComputedStyle(document.body).{what}")
        return sum(int(one) for one in text[4:-1].split(",")[:3]) / 765

    page.emulate_media(media="print")
    assert brightness() == 1.0
    page.emulate_media(media="screen")
    first = brightness()
    assert (first > 0.5) == (scheme == "light")
    page.locator("#theme").click()
    assert (brightness() > 0.5) == (other == "light")
    assert abs(brightness() - brightness("color")) > 0.6
    page.locator("#theme").click()
    assert brightness() == first
    page.emulate_media(media="print")
    assert brightness() == 1.0


def test_who_decided_is_told_for_any_node_that_is_chosen(visit):
    page = visit("committee.html")
    data = page.evaluate("JSON.parse(document.querySelector('script.data').textContent)")
    for node in (3, 140):
        told = seek(page, str(node))
        assert f"the committee says {data['chosen'][node]}" in told
        rows = page.locator(".votes tbody tr").all_inner_texts()
        assert len(rows) == len(data["members"])
        for number, row in enumerate(rows):
            cells = row.split("\t")
            assert cells[0].startswith(data["members"][number])
            assert cells[1] == str(data["said"][number][node])
            assert cells[2].strip() == f"{data['say'][number][node]}\u00a0%"
            assert ("decided" in cells[0]) == (data["decided"][node] == number)
        assert page.locator(".pick").input_value() == str(node)
    assert "no node 150" in seek(page, "150")
    assert page.evaluate("window.broken") is None


def test_a_node_that_the_page_of_a_large_committee_lacks_is_said(visit):
    page = visit("large-committee.html")
    data = page.evaluate("JSON.parse(document.querySelector('script.data').textContent)")
    last = data["ids"][-1]
    assert f"the committee says {data['chosen'][-1]}" in seek(page, f"n{last}")
    missing = next(node for node in range(150) if node not in data["ids"])
    assert f"--node n{missing}" in seek(page, f"n{missing}")


def test_the_members_at_a_node_fit_on_a_phone(visit):
    page = visit("committee.html", viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".votes .scroll").evaluate("one => one.scrollWidth <= one.clientWidth")


@pytest.mark.parametrize("name", ["result.html", "audit.html", "star.html"])
def test_a_phone_needs_no_sideways_scrolling(visit, name):
    page = visit(name)
    for width in (1100, 390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    panels = [one.bounding_box() for one in page.locator("svg.net").all()]
    assert all(one["width"] > 200 for one in panels)
    assert all(one["x"] == panels[0]["x"] for one in panels)


def edge_of(page, region):
    """The colours along the right edge of a region of the page, as they are on the screen."""
    place = region.bounding_box()
    wide, tall = region.evaluate("one => [one.clientWidth, one.clientHeight]")  # without the bars to scroll by
    clip = {"x": place["x"] + wide - 3, "y": place["y"] + 0.8 * tall, "width": 2, "height": 3}
    return np.asarray(Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("L")).astype(float)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["audit.html", "study.html"])
def test_a_table_wider_than_a_phone_shows_that_there_is_more(visit, name, scheme):
    page = visit(name, viewport={"width": 390, "height": 800}, color_scheme=scheme)
    wide = [one for one in page.locator(".scroll").all() if one.evaluate("one => one.scrollWidth > one.clientWidth")]
    assert wide
    region = wide[0]
    region.evaluate("one => one.scrollIntoView({block: 'center'})")
    start = edge_of(page, region)
    region.evaluate("one => one.scrollTo(one.scrollWidth, 0)")
    end = edge_of(page, region)
    assert abs(start.mean() - end.mean()) > 8
    # What a row is about stays in view while its figures scroll.
    first, table = region.locator("tbody th").first.bounding_box(), region.bounding_box()
    assert first["x"] == pytest.approx(table["x"], abs=1)
    last = region.locator("thead th").last.bounding_box()
    assert last["x"] + last["width"] <= table["x"] + table["width"] + 1


@pytest.mark.parametrize("name", ["result.html", "audit.html", "study.html", "committee.html", "stress.html"])
def test_paper_is_wide_enough(visit, name):
    page = visit(name, viewport={"width": 700, "height": 900})
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    cut = page.evaluate(
        """() => [...document.querySelectorAll("td, th")].filter(cell => cell.scrollWidth > cell.clientWidth + 1
          || cell.getBoundingClientRect().right > 701).map(cell => cell.textContent)"""
    )
    assert cut == []


@pytest.mark.parametrize("width", [1100, 390])
def test_words_of_a_chart_stay_inside_it_and_apart(visit, width):
    page = visit(viewport={"width": width, "height": 800})
    outside = page.evaluate(
        """() => [...document.querySelectorAll('svg.chart')].flatMap(svg => {
          const frame = svg.getBoundingClientRect();
          return [...svg.querySelectorAll('text')].filter(text => {
            const box = text.getBoundingClientRect();
            return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
          }).map(text => text.textContent);
        })"""
    )
    assert outside == []
    overlapping = page.evaluate(
        """() => [...document.querySelectorAll('svg.chart')].flatMap(svg => {
          const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
          return texts.flatMap(([one, a], place) => texts.slice(place + 1)
            .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
              && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4)
            .map(([other]) => one + " / " + other));
        })"""
    )
    assert overlapping == []


def test_an_audit_has_one_picture(visit):
    page = visit("audit.html")
    assert page.locator("svg.net").count() == 1
    assert page.locator(".ink.marked").count() > 1
    page.locator("svg.net").focus()
    page.keyboard.press("n")
    assert "suspicion 0." in page.locator(".tip").text_content()


@pytest.mark.parametrize("name", ["hub.html", "large-hub.html"])
def test_of_a_crowded_node_an_audit_draws_the_few_edges_that_matter(visit, name):
    page = visit(name)
    said = page.locator(".status").text_content()
    assert said.startswith("Node 1: the 12 most suspicious of 30 suspicious edges and the 6 most trusted of 370 other")
    assert "382 of its 400 edges are not" in said
    net = page.locator("svg.net")
    assert net.locator(".ink.marked").count() == 12
    assert net.locator(".ink").count() == 18 + 9  # of the rim those between two that are drawn
    names = net.locator("text").all_text_contents()
    assert sorted(map(int, names)) == [1, *range(2, 14), *range(396, 402)]
    outside = net.evaluate(
        """net => [...net.querySelectorAll("text")].filter(one => {
          const box = one.getBoundingClientRect(), frame = net.getBoundingClientRect();
          return box.left < frame.left || box.right > frame.right || box.top < frame.top;
        }).length"""
    )
    assert outside == 0
    page.locator(".pick").select_option(index=1)
    assert "edges are drawn" in page.locator(".status").text_content()


def test_a_stress_test_says_loudly_what_failed_and_fits_a_phone(visit):
    page = visit("stress.html", viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("h2").first.inner_text() == "Do not quote these figures yet"
    assert "masked" in page.locator("li", has_text="who knows the defence").first.inner_text()
    assert page.locator("polyline.line.bold").count() == 2
