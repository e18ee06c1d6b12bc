"""Graphs larger than memory, on disk or on several machines."""
