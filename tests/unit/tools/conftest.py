"""The tools, and the records that they read, are in the repository, not in the distribution."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
collect_ignore_glob = [] if (ROOT / "tools").is_dir() else ["test_*.py"]
