"""The report as a person uses it: in a browser, with a mouse, a keyboard and a phone."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from garnet import GARNET, as_graph
from garnet.datasets import block_model
from garnet.report.page import write_report
from garnet.report.result import Accuracy, make_result

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
    result = make_result(
        graph,
        GARNET(rank=8).purify(graph),
        truth=graph.edges[:, ::5],
        accuracy=Accuracy(before=(0.4, 0.5, 0.6), after=(0.7, 0.8, 0.75)),
    )
    write_report(result, folder / "result.html", nodes=[11, 12])
    write_report(result, folder / "all.html", nodes=range(150))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("garnet.report.neighbourhood._WHOLE", 10)
        write_report(result, folder / "large.html", nodes=[11])
    rng = np.random.default_rng(0)
    audit = SimpleNamespace(
        graph=graph,
        edges=graph.edges,
        suspicion=rng.random(graph.num_edges),
        reasons={"spectral": rng.random(graph.num_edges)},
        nodes=rng.random(150),
    )
    write_report(audit, folder / "audit.html")
    return folder


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


def test_each_picture_shows_what_is_within_two_edges_in_its_own_graph(visit):
    page = visit()
    data = page.evaluate("JSON.parse(document.querySelector('script.data').textContent)")
    differ = 0
    for number, view in enumerate(data["views"]):
        page.locator(".pick").select_option(index=number)
        for net, (_, absent) in zip(page.locator("svg.net").all(), data["panels"], strict=True):
            there = [set(edge[:2]) for edge in view["edges"] if edge[2] != absent]
            near = {0}.union(*(edge for edge in there if 0 in edge))
            within = near.union(*(edge for edge in there if edge & near))
            drawn = net.locator(".node").evaluate_all("spots => spots.map(spot => Number(spot.dataset.node))")
            assert set(drawn) == within
            differ += within != {0}.union(*there)
    assert differ


def test_any_node_of_a_small_graph_is_found_by_id_name_or_click(visit):
    """What the page works out for a node that is not in the list is what Python works out for it."""
    page, whole = visit(), visit("all.html")
    listed = {
        view["id"] for view in page.evaluate("JSON.parse(document.querySelector('script.data').textContent)")["views"]
    }
    for node in [node for node in range(150) if node not in listed][:12]:
        for one in (page, whole):
            one.locator(".seek").fill(str(node))
            one.locator(".seek").press("Enter")
        said = page.locator(".status").text_content()
        assert f"</script>{node}," in said
        assert said == whole.locator(".status").text_content()
        marked = [one.locator("svg.net").first.locator(".ink.marked").count() for one in (page, whole)]
        assert marked[0] == marked[1]
    page.locator(".seek").fill("<script>window.broken = 1</script>149")
    page.locator(".seek").press("Enter")
    assert "</script>149," in page.locator(".status").text_content()
    page.locator(".seek").fill("150")
    page.locator(".seek").press("Enter")
    assert "There is no node 150" in page.locator(".status").text_content()


def test_of_a_large_graph_the_nodes_in_the_list_are_found(visit):
    page = visit("large.html")
    page.locator(".seek").fill("no such node")
    page.locator(".seek").press("Enter")
    assert "no such node is not among those" in page.locator(".status").text_content()


def test_a_node_is_picked_from_the_list_by_id_or_by_a_click(visit):
    page = visit()
    page.locator(".pick").select_option(index=1)
    assert "</script>12," in page.locator(".status").text_content()
    page.locator(".seek").fill("11")
    page.locator(".seek").press("Enter")
    assert "</script>11," in page.locator(".status").text_content()
    assert page.locator(".pick").input_value() == "0"
    page.locator(".seek").fill("no such node")
    page.get_by_role("button", name="Show").click()
    assert "There is no node no such node" in page.locator(".status").text_content()
    page.locator("summary").click()
    rows = page.locator(".listing tbody tr").count()
    assert rows == page.evaluate(
        "JSON.parse(document.querySelector('script.data').textContent).views[0].edges"
        ".filter(edge => edge[0] === 0 || edge[1] === 0).length"
    )
    for view in range(2, page.locator(".pick option").count()):
        page.locator(".pick").select_option(index=view)
        known = page.locator("svg.net").first.locator(".node.known:not(.middle)")
        if known.count():
            known.first.click()
            break
    assert page.locator(".pick").input_value() != str(view)


def test_an_edge_under_the_mouse_tells_its_score_and_kind(visit):
    page = visit()
    net = page.locator("svg.net").first
    net.scroll_into_view_if_needed()
    tip = page.locator(".tip").first
    assert tip.is_hidden()
    tie = net.locator(".tie:has(.marked)").last
    page.mouse.move(*tie.locator(".hit").evaluate(MIDDLE))
    lit = net.locator(".tie.lit")
    edge = page.evaluate(
        "number => JSON.parse(document.querySelector('script.data').textContent).views[0].edges[number]",
        int(lit.get_attribute("data-edge")),
    )
    assert tip.is_visible()
    said = tip.text_content()
    assert ["kept", "dropped", "new"][edge[2]] in said
    assert f"score {edge[4]:.4g}" in said
    assert ("adversarial" in said) == bool(edge[3])
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
    page.mouse.wheel(0, -200)
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


@pytest.mark.parametrize("name", ["result.html", "audit.html"])
def test_a_phone_needs_no_sideways_scrolling(visit, name):
    page = visit(name)
    for width in (1100, 390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    panels = [one.bounding_box() for one in page.locator("svg.net").all()]
    assert all(one["width"] > 200 for one in panels)
    assert all(one["x"] == panels[0]["x"] for one in panels)


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
