"""What attacks know of a whole defence."""

import pytest

from garnet.attacks.adaptive import device_of
from garnet.defenses import Committee, FeatureKNN, GNNGuard, LinearFloor, Purified


@pytest.mark.parametrize(
    ("defense", "device"),
    [
        (Purified(), "cpu"),
        (Purified(device="cuda"), "cuda"),
        (Purified(FeatureKNN(), GNNGuard(device="cuda")), "cuda"),
        (Purified(FeatureKNN(), GNNGuard(device="cuda"), device="cpu"), "cpu"),
        (Committee(device="cuda"), "cuda"),
        (LinearFloor(), "cpu"),
    ],
)
def test_a_defence_computes_where_it_or_its_model_was_told_to(defense, device):
    assert device_of(defense) == device
