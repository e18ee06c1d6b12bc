"""Measured claims: a study (TOML) is run into records (JSON lines), resuming where it stopped; records make tables."""
