"""Sparse rows on a CPU or a GPU, and the graph on a device."""
