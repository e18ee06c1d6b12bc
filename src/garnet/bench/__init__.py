"""Measured claims: a study (TOML) is run into records (JSON lines), resuming where it stopped; records make tables."""

from garnet.bench.frame import as_rows, load_records

__all__ = ["as_rows", "load_records"]
