"""GARNET itself: from an untrusted graph to a trusted one."""
