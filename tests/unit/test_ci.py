"""Everybody who checks a change calls the same targets."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
yaml = pytest.importorskip("yaml")


def targets(text):
    return re.findall(r"^make (\w+)$", text, re.M)


def test_the_hosted_run_is_that_of_any_machine():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    steps = workflow["jobs"]["check"]["steps"]
    hosted = [step["run"] for step in steps if "run" in step]
    assert targets("\n".join(hosted)) == targets((ROOT / ".ci/run").read_text()) == ["lint", "test", "slow"]
    assert workflow["jobs"]["check"]["strategy"]["matrix"]["python"] == ["3.11", "3.12"]


def test_hooks_call_targets_of_the_makefile():
    known = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M)
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert targets("\n".join(hook["entry"] for hook in repo["hooks"])) == ["lint", "test"]
    assert {"lint", "test", "slow"} <= set(known)
