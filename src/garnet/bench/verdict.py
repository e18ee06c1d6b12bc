"""What a stress test found, and whether it may be quoted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from garnet.bench.checks import Check, checks
from garnet.bench.opponents import THREATS, Threat
from garnet.bench.outcomes import Battery, Outcome
from garnet.bench.record import Damage


@dataclass(frozen=True, eq=False)
class Stress:
    """What a stress test found.

    Attributes:
        battery: the accuracy under every attack.
        ran: attempts that this run made; the others were in the file.
        damages: lines of the file that were no records.
    """

    battery: Battery
    ran: int = 0
    damages: tuple[Damage, ...] = ()

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """What has to hold before the figures mean anything."""
        return checks(self.battery)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that do not hold."""
        return tuple(one for one in self.checks if one.verdict == "failed")

    def worst(self, threat: Threat, budget: str) -> Outcome | None:
        """See `Battery.worst`."""
        return self.battery.worst(threat, budget)

    @property
    def verdict(self) -> str:
        """All of it in a few sentences: what is left at the largest budget, and whether that may be quoted."""
        battery = self.battery
        text = f"{battery.defense} on {battery.graph}: {battery.clean} % where nobody attacks"
        for threat in THREATS if battery.budgets else ():
            if (worst := battery.worst(threat, battery.budgets[-1])) is not None:
                text += f", {worst} % under the worst {threat} at {battery.budgets[-1]} ({worst.attack})"
        return f"{text}. {self.confidence}"

    @property
    def confidence(self) -> str:
        """Whether the figures may be quoted: what came of the checks, and how many attempts failed."""
        failures = len(self.battery.failures)
        if not failures:
            return self._checked
        what = "1 attempt failed" if failures == 1 else f"{failures} attempts failed"
        return f"{self._checked} {what}, so the true worst case may be lower."

    @property
    def _checked(self) -> str:
        skipped = sum(one.verdict == "not run" for one in self.checks)
        if self.battery.missing:
            what = "1 attempt is" if self.battery.missing == 1 else f"{self.battery.missing} attempts are"
            return f"{what} missing, so this is no worst case yet."
        if self.failed:
            return f"{len(self.failed)} of {len(self.checks)} checks failed: do not quote these figures."
        if skipped:
            return f"No check failed, but {skipped} of {len(self.checks)} could not be run."
        return f"All {len(self.checks)} checks hold."
