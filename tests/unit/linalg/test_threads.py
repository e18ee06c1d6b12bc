"""How many threads a call works with, and what it leaves behind."""

import os
import subprocess
import sys
import threading
import time

import pytest
import torch

from garnet import GARNET, processors
from garnet.datasets import block_model, cora
from garnet.linalg.threads import crew, sharing
from garnet.processors import Load, allowed


@pytest.fixture
def two_threads(monkeypatch):
    """As on a machine of two processors whose user has said nothing."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_a_small_graph_has_one_thread_and_the_caller_its_own_again():
    with sharing(cora()):
        assert torch.get_num_threads() == 1
        with sharing(block_model(60_000, seed=0)):
            assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with pytest.raises(KeyError), sharing(cora()):
        raise KeyError
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_who_leaves_the_work_to_others_has_one_thread():
    with sharing(0):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_other_threads_of_the_process_keep_theirs():
    seen = []
    with sharing(cora()):
        other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        other.start()
        other.join()
    assert seen == [2]


@pytest.mark.usefixtures("two_threads")
def test_the_libraries_of_numpy_and_scipy_follow_and_have_theirs_back():
    controlled = pytest.importorskip("threadpoolctl").ThreadpoolController().select(internal_api="openblas")
    if not controlled.lib_controllers:
        pytest.skip("NumPy and SciPy came without OpenBLAS")

    def threads():
        return {library["num_threads"] for library in controlled.info()}

    with controlled.limit(limits=2):
        with sharing(cora()):
            assert threads() == {1}
            other = threading.Thread(target=GARNET(rank=8, k=3).purify, args=(block_model(300, seed=0),))
            other.start()
            other.join()
            assert threads() == {1}  # this call is not over
        assert threads() == {2}


@pytest.mark.usefixtures("two_threads")
def test_who_sets_the_variable_keeps_it(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with sharing(cora()):
        assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_a_purification_leaves_the_settings_of_the_process():
    GARNET(rank=8, k=3).purify(block_model(300, seed=0))
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_quotas_of_control_groups_are_read(tmp_path, monkeypatch, files, quota):
    monkeypatch.setattr(processors, "GROUPS", tmp_path)
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text + "\n")
    found = allowed()
    if sys.platform != "linux":
        pytest.skip("control groups are Linux's")
    assert found.quota == quota
    assert found.count == max(1, min(len(found.numbers), int((quota or len(found.numbers)) + 0.25)))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what others use")
def test_processors_that_others_use_are_not_left():
    able = allowed().count
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        load, found, until = Load(), able, time.monotonic() + 60
        while found > 1 and time.monotonic() < until:
            time.sleep(0.5)
            found = load.left()
        assert found == 1
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_threads_that_share_a_product_record_nothing_for_gradients():
    """Two that record into one tensor at the same time can fail, or not."""
    with crew(2) as threads:
        assert not threads.submit(torch.is_grad_enabled).result()
        assert threads.submit(torch.get_num_threads).result() == 1
    assert torch.is_grad_enabled()
