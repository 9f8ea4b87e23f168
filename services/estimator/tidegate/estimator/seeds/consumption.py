"""The seed's consumption filter: burn, velocity, acceleration per period, and `will_exhaust` as a point forecast."""

from collections.abc import Sequence
from dataclasses import dataclass, field

Row = tuple[float, float, float]


@dataclass(slots=True)
class SeedConsumption:
    """Three-state Kalman filter over equal periods of `dt`. Raises ValueError unless dt > 0.

    `q` and `r` are process and measurement noise. Windows, resets, idle gaps and outliers mean nothing to it.
    """

    q: float = 1.0
    r: float = 1.0
    dt: float = 1.0
    updates: int = 0
    state: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    covariance: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.dt > 0:
            raise ValueError(f"a period must be longer than 0, not {self.dt}")
        self.covariance = [[self.r if i == j else 0.0 for j in range(3)] for i in range(3)]

    @classmethod
    def tuned(cls, history: Sequence[float], dt: float = 1.0) -> "SeedConsumption":
        """Noise from a history (r its variance, at least 1; q a thousandth of it), which is then replayed."""
        if not history:
            return cls(dt=dt)
        mean = sum(history) / len(history)
        spread = sum((value - mean) ** 2 for value in history) / max(len(history) - 1, 1)
        r = max(spread, 1.0)
        made = cls(q=max(r * 1e-3, 1e-9), r=r, dt=dt)
        for value in history:
            made.update(value)
        return made

    def update(self, observed: float) -> None:
        """A period's use. The first one is taken as the burn and leaves the covariance alone."""
        self.updates += 1
        if self.updates == 1:
            self.state[0] = observed
            return
        transition = ((1.0, self.dt, 0.5 * self.dt * self.dt), (0.0, 1.0, self.dt), (0.0, 0.0, 1.0))
        self.state = [_dot(row, self.state) for row in transition]
        moved = [[_dot(row, column) for column in self.covariance] for row in transition]
        p = [[_dot(row, column) for column in transition] for row in moved]
        for i in range(3):
            p[i][i] += self.q
        total = p[0][0] + self.r
        gain = [p[i][0] / total for i in range(3)]
        error = observed - self.state[0]
        self.state = [x + k * error for x, k in zip(self.state, gain, strict=True)]
        self.covariance = [[p[i][j] - gain[i] * p[0][j] for j in range(3)] for i in range(3)]

    def horizon(self, steps: int) -> list[float]:
        """Use of each of the next periods, never below 0."""
        burn, velocity, acceleration = self.state
        times = [n * self.dt for n in range(1, steps + 1)]
        return [max(0.0, burn + velocity * t + 0.5 * acceleration * t * t) for t in times]

    def will_exhaust(self, remaining: float, steps: int) -> tuple[bool, float | None]:
        """Whether the expected use reaches `remaining` within `steps` periods, and after how many."""
        if remaining <= 0:
            return True, 0.0
        total = 0.0
        for n, use in enumerate(self.horizon(steps) if self.updates else []):
            if total + use >= remaining:
                return True, n + (remaining - total) / use
            total += use
        return False, None


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))
