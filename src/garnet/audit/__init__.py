"""Which edges of a graph should not be believed, and why."""

from garnet.audit.audit import Audit, audit
from garnet.audit.tiled_audit import TiledAudit

__all__ = ["Audit", "TiledAudit", "audit"]
