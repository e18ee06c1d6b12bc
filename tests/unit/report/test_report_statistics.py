import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from garnet.report.statistics import mean_share_interval, share_interval

seen = st.integers(1, 500).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))


@given(st.lists(seen, min_size=1, max_size=5))
def test_the_interval_of_a_mean_of_shares_holds_the_mean(shares):
    hits, totals = zip(*shares, strict=True)
    low, high = mean_share_interval(hits, totals)
    mean = np.mean([hit / total for hit, total in shares])
    assert 0 <= low <= mean + 1e-12
    assert mean - 1e-12 <= high <= 1
    one = mean_share_interval(hits[:1], totals[:1])
    assert one == pytest.approx(share_interval(hits[0], totals[0]))


def test_it_covers_the_truth_about_as_often_as_it_says():
    """A large and a small class, as where frauds are few: the small one decides how wide the interval is."""
    rng = np.random.default_rng(0)
    truth, totals = (0.97, 0.4), (1000, 27)
    covered = 0
    for _ in range(1000):
        hits = rng.binomial(totals, truth).tolist()
        low, high = mean_share_interval(hits, totals)
        covered += low <= np.mean(truth) <= high
        assert high - low > 0.1
    # Of 1,000 intervals at 95 % between 930 and 970 cover it, but for once in 200 such trials.
    assert 930 <= covered <= 970
