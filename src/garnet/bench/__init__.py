"""Measured claims: a study (TOML) is run, resumably, into records (JSON lines), and these become a table."""
