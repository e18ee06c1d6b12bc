import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import scipy.stats
from hypothesis import example, given, settings
from hypothesis import strategies as st

from garnet.report.axes import Axis, short, span
from garnet.report.charts import Bar, Line, Part, bars, columns, histogram, lines
from garnet.report.statistics import mean_interval, share_interval

finite = st.floats(-1e6, 1e6)


def drawing(figure):
    """The chart of a figure as a tree; the parser refuses what is not well formed."""
    return ElementTree.fromstring(str(figure)).find("svg")


def numbers(element, name):
    return [float(one.get(name)) for one in element]


@given(low=finite, size=st.floats(1e-3, 1e6), scale=st.sampled_from([1.0, 1e-20, 1e20]))
def test_ticks_are_round_few_and_on_the_scale(low, size, scale):
    low, size = low * scale, size * scale
    axis = Axis(low, low + size, 0.0, 100.0)
    ticks = np.array(axis.ticks())
    assert 2 <= len(ticks) <= 8
    assert ((ticks >= low - 1e-6 * size) & (ticks <= low + size + 1e-6 * size)).all()
    assert np.ptp(np.diff(ticks)) <= 1e-6 * size


@given(low=st.floats(1e-6, 1e3), ratio=st.floats(31, 1e9))
def test_ticks_of_a_logarithmic_scale_are_on_it(low, ratio):
    ticks = Axis(low, low * ratio, 0.0, 100.0, log=True).ticks()
    assert 1 <= len(ticks) <= 8
    assert all(low * 0.999 <= tick <= low * ratio * 1.001 for tick in ticks)


def test_a_scale_puts_its_ends_at_its_ends():
    assert Axis(2.0, 4.0, 10.0, 30.0)([2, 3, 4, 9]).tolist() == [10, 20, 30, 30]
    assert Axis(1.0, 100.0, 0.0, 2.0, log=True)([1, 10, 100]) == pytest.approx([0, 1, 2])


@given(values=st.lists(finite, max_size=6), zero=st.booleans())
@example(values=[5e-324], zero=False)
@example(values=[-5e-324], zero=True)
def test_a_span_is_never_empty(values, zero):
    low, high = span([values], zero=zero)
    assert low < high
    assert all(low <= value <= high for value in values)
    assert not zero or low <= 0 <= high


def test_numbers_in_few_characters():
    assert [short(one) for one in (0, 0.5, 1234, 12_000, 1_200_000, -3e9)] == ["0", "0.5", "1234", "12k", "1.2M", "-3G"]


@settings(max_examples=30, deadline=None)
@given(counts=st.lists(st.integers(0, 1000), min_size=1, max_size=30).filter(any), mark=st.floats(0.0, 1.0))
def test_the_areas_of_a_histogram_are_its_counts(counts, mark):
    svg = drawing(
        histogram(
            [Part(name="a", counts=counts)],
            np.linspace(0, 1, len(counts) + 1),
            title="t",
            x="x",
            y="y",
            mark=(mark, "here"),
        )
    )
    points = np.array([pair.split(",") for pair in svg.find("polygon").get("points").split()], dtype=float)
    foot, tops = points[0, 1], points[1:-1:2, 1]
    heights = foot - tops
    assert heights / heights.max() == pytest.approx(np.array(counts) / max(counts), abs=2e-3)
    line = svg.find("line[@class='mark']")
    left, right = points[0, 0], points[-1, 0]
    assert float(line.get("x1")) == pytest.approx(left + mark * (right - left), abs=0.11)


def test_lines_are_where_their_numbers_are():
    band = Line(name="a", x=[0, 1, 2], y=[1.0, 3.0, 2.0], low=[0.0, 2.0, 1.0], high=[2.0, 4.0, 3.0])
    svg = drawing(lines([band, Line(name="b", x=[0, 2], y=[0.0, 4.0])], title="t", x="x", y="y"))
    dots = svg.findall("circle")
    xs, ys = numbers(dots, "cx"), numbers(dots, "cy")
    assert np.diff(xs[:3]) == pytest.approx([xs[1] - xs[0]] * 2, abs=0.2)
    scale = (ys[3] - ys[4]) / 4
    assert [(ys[3] - y) / scale for y in ys[:3]] == pytest.approx([1, 3, 2], abs=0.01)
    assert len(svg.findall("polygon")) == 1
    assert [text.text for text in svg.iter("title")] == ["t"]


def test_whiskers_and_bars_share_a_scale():
    entries = [Bar(name="a", value=2.0, low=1.0, high=3.0, note="2"), Bar(name="b", value=4.0)]
    svg = drawing(bars(entries, title="t", x="x"))
    boxes = svg.findall("rect")
    wide = numbers(boxes, "width")
    assert wide[1] == pytest.approx(2 * wide[0], abs=0.2)
    path = svg.find("path").get("d")
    start, end = float(path[1:].split(" ")[0]), float(path.split("H")[1].split("M")[0])
    left = float(boxes[0].get("x"))
    assert [start - left, end - left] == pytest.approx([wide[0] / 2, 1.5 * wide[0]], abs=0.2)


def test_columns_are_as_high_as_their_counts():
    svg = drawing(
        columns(["a", "b"], [Part(name="p", counts=[1, 2]), Part(name="q", counts=[0, 4])], title="t", x="x", y="y")
    )
    heights = numbers(svg.findall("rect"), "height")
    assert np.array(heights) / heights[3] == pytest.approx([0.25, 0.5, 0, 1], abs=1e-2)


@settings(max_examples=30, deadline=None)
@given(words=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12))
def test_words_stay_words(words):
    words = f"<script>{words}</svg>&"
    figures = [
        lines(
            [Line(name=words, x=[0, 1], y=[0, 1]), Line(name="b", x=[0, 1], y=[1, 1])], title=words, x=words, y=words
        ),
        bars([Bar(name=words, value=1.0, note=words)], title=words, x=words),
        columns([words], [Part(name=words, counts=[1])], title=words, x=words, y=words),
        histogram([Part(name=words, counts=[1])], [0, 1], title=words, x=words, y=words, mark=(0.5, words)),
    ]
    for figure in figures:
        tree = ElementTree.fromstring(str(figure))
        assert not [one for one in tree.iter() if one.tag == "script"]
        svg = tree.find("svg")
        assert svg.get("role") == "img"
        assert svg.find("title").text == words
        assert words in svg.find("desc").text
        assert svg.get("width") is None


@given(values=st.lists(st.floats(0, 100), min_size=2, max_size=12).filter(lambda values: np.std(values) > 1e-6))
def test_the_interval_of_a_mean_is_students(values):
    mean, low, high = mean_interval(values)
    expected = scipy.stats.t.interval(0.95, len(values) - 1, np.mean(values), scipy.stats.sem(values))
    assert mean == pytest.approx(np.mean(values))
    assert [low, high] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_one_value_has_no_interval():
    assert mean_interval([3.0]) == (3.0, None, None)


@given(total=st.integers(1, 5000), data=st.data())
def test_the_interval_of_a_share_is_wilsons(total, data):
    hits = data.draw(st.integers(0, total))
    expected = scipy.stats.binomtest(hits, total).proportion_ci(0.95, "wilson")
    assert share_interval(hits, total) == pytest.approx((expected.low, expected.high), abs=1e-9)
