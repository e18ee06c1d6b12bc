import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from garnet.bench.shipped import shipped

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_wheel_imports_from_elsewhere_and_has_its_data(tmp_path):
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("pygarnet-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    data = (
        "py.typed",
        "datasets/cora.npz",
        "datasets/cora-metattack-0.2.npz",
        "datasets/NOTICE",
        "bench/published.json",
        *(f"bench/studies/{name}.toml" for name in shipped()),
    )
    assert len(data) > 30
    assert wheel.stat().st_size < 2 << 20
    assert {f"garnet/{name}" for name in data} <= names
    assert all(name.startswith(("garnet/", "pygarnet-")) for name in names)
    code = "import garnet, garnet.datasets; print(garnet.__file__); print(garnet.datasets.cora())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "site", capture_output=True, text=True, check=True, timeout=120
    )
    command = [sys.executable, "-m", "garnet", "bench", "list"]
    listed = subprocess.run(command, cwd=tmp_path / "site", capture_output=True, text=True, check=True, timeout=120)
    assert "Table 2: citation graphs" in listed.stdout
    where, graph = done.stdout.splitlines()
    assert where.startswith(str(tmp_path))
    assert graph == "Graph(2485 nodes, 5069 edges, 1433 features, 7 classes)"
