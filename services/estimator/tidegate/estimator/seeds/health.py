"""The seed's health filter: one error probability per endpoint and model, with a damped gain."""

from dataclasses import dataclass

UNREACHABLE, MIN_SAMPLES, ONSET = 0.55, 3, 0.15
_Q, _R, _DAMPING = 0.02, 0.15, 0.45


@dataclass(slots=True)
class SeedHealth:
    """Error probability `x` with variance `p`."""

    x: float = 0.05
    p: float = 0.30
    samples: int = 0

    def observe(self, *, failed: bool) -> None:
        """One outcome."""
        gain = self.p / (self.p + _R) * _DAMPING
        self.x = min(max(self.x + gain * (float(failed) - self.x), 0.0), 1.0)
        self.p = (1.0 - gain) * self.p + _Q
        self.samples += 1

    @property
    def unreachable(self) -> bool:
        """Whether the seed would stop using it."""
        return self.samples >= MIN_SAMPLES and self.x >= UNREACHABLE

    def factor(self) -> float:
        """Price multiplier: 1 up to 15 % errors, then rising. Documented as at most 4; it has no bound."""
        t = (self.x - ONSET) / (1.0 - ONSET)
        return 1.0 if t <= 0 else 1.0 + 3.0 * t / (1.0 - t) if t < 1.0 else float("inf")
