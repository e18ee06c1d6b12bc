"""GARNET itself: from a graph that is not to be trusted to one that is."""
