"""Which edges of a graph should not be believed, and why."""

from garnet.audit.audit import Audit, audit

__all__ = ["Audit", "audit"]
