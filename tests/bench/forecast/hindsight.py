"""A flat plan beside a metered fallback: how much of what hindsight could have saved does the shadow price save?

Every request shows its demand; those whose expected metered cost per unit is at least λ use the plan while quota is
left. λ is what the estimator publishes: the signals go through `fold`, the prices come out of `publish`, worked out
again 300 times in a window (in production more often), so nothing is known that a gateway would not know. Beside it: first come,
first served, and the seed's throttle (not above 1.5 times the even pace). The bound is the linear programme with
everything known; between them `told_demand` and `told_all`, prices told of the future. Only windows that were recorded
whole are scored. Also two windows at once, and no fallback at all: there a request's value is its reference price,
and one below λ is refused.

Run: python tests/bench/forecast/hindsight.py. Attribution of the traces: `hindsight_streams`.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from bench.forecast.hindsight_bound import one_window, two_windows  # noqa: E402
from bench.forecast.hindsight_streams import NS, START_NS, Stream, agents, azure  # noqa: E402
from bench.forecast.hindsight_told import TOLD, decide_told  # noqa: E402
from support.shared_data import BESIDE  # noqa: E402
from tidegate.estimator.columns import BoolArray, FloatArray, IntArray  # noqa: E402
from tidegate.estimator.fold import Folding  # noqa: E402
from tidegate.estimator.publish import publish  # noqa: E402
from tidegate.estimator.state import State  # noqa: E402
from tidegate.estimator.uvi import uvi_parity  # noqa: E402
from tidegate.events.config import Pool, Routing, Window  # noqa: E402
from tidegate.events.decision import WindowUse  # noqa: E402
from tidegate.events.signals import DemandSeen, UsageSettled  # noqa: E402
from tidegate.events.types import AttemptId, DecisionId, PoolId, TargetId, Unit, WindowId  # noqa: E402

QUOTAS = (0.3, 0.5, 0.8)
PLACEMENTS = (1, 2, 3)
THROTTLE = 1.5
WEEK_NS = 7 * 86_400 * NS
Policy = Literal["price", "throttle", "first_come"]
POLICIES: tuple[Policy, ...] = ("price", "throttle", "first_come")
_ATTEMPT, _DECISION = AttemptId("0"), DecisionId("0")


@dataclass(frozen=True, slots=True)
class Limit:
    """A window of a plan: units of each request, as used and as expected before."""

    window: Window
    length_ns: int
    units: list[int]
    expected: list[int]


@dataclass(slots=True)
class Plan:
    """A flat plan under one policy, and what it has served: shares of requests, 1 but for one that met the limit."""

    name: str
    policy: Policy
    limits: list[Limit]
    value: list[float]
    """What a request is expected to save when the plan serves it, nano-dollars."""
    left: list[int] = field(default_factory=list)
    period: list[int] = field(default_factory=list)
    price: list[float] = field(default_factory=list)
    served: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.left = [limit.window.limit for limit in self.limits]
        self.period = [-1] * len(self.limits)
        self.price = [0.0] * len(self.limits)

    def take(self, k: int, at_ns: int) -> bool:
        """Decide request `k`; True when the plan serves it."""
        for w, limit in enumerate(self.limits):
            start = at_ns - (at_ns - START_NS) % limit.length_ns
            if start != self.period[w]:
                self.period[w], self.left[w] = start, limit.window.limit
        room = all(left >= limit.expected[k] for left, limit in zip(self.left, self.limits, strict=True))
        if not (room and self._wants(k, at_ns)):
            return False
        self.served[k] = min(
            [1.0, *(self.left[w] / limit.units[k] for w, limit in enumerate(self.limits) if limit.units[k])]
        )
        for w, limit in enumerate(self.limits):
            self.left[w] -= limit.units[k]
        return True

    def _wants(self, k: int, at_ns: int) -> bool:
        if self.policy == "price":
            asked = sum(p * limit.expected[k] for p, limit in zip(self.price, self.limits, strict=True))
            return self.value[k] >= asked
        if self.policy == "first_come":
            return True
        return all(self._pace(w, at_ns) < THROTTLE for w in range(len(self.limits)))

    def _pace(self, w: int, at_ns: int) -> float:
        limit = self.limits[w]
        used = 100.0 * (1.0 - self.left[w] / limit.window.limit)
        return uvi_parity(used, (at_ns - self.period[w]) / limit.length_ns)


class Estimator:
    """The plans that go by price as pools of one estimator state."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.plans = plans
        self.state = State()
        self.pools = [PoolId(plan.name) for plan in plans]
        self.routing = Routing(
            pools=tuple(
                Pool(id=pool, billing="flat", windows=tuple(limit.window for limit in plan.limits))
                for pool, plan in zip(self.pools, plans, strict=True)
            )
        )
        for pool, plan in zip(self.pools, plans, strict=True):
            for limit in plan.limits:
                self.state.window_of(
                    self.state.pool(pool, 0), limit.window.id, limit.length_ns, first_request=False
                )

    def prices(self, now_ns: int) -> None:
        """Work λ out again and hand it to the plans."""
        beliefs = publish(self.state, now_ns, self.routing, (), self.pools).pools
        for pool, plan in zip(self.pools, self.plans, strict=True):
            known = {belief.window: belief.shadow_nanousd for belief in beliefs[pool].windows}
            plan.price = [known[limit.window.id] for limit in plan.limits]

    def learn(self, stream: Stream, requests: Iterable[int]) -> None:
        """Let every plan decide these requests and the state see what came of it."""
        run = Folding(self.state)
        demanded, settled = run.handlers[DemandSeen], run.handlers[UsageSettled]
        for k in requests:
            at_ns = int(stream.at_ns[k])
            for pool, plan in zip(self.pools, self.plans, strict=True):
                taken = plan.take(k, at_ns)
                demanded(
                    DemandSeen(
                        decision=_DECISION,
                        pool=pool,
                        windows=_uses(plan, k, expected=True),
                        alternative_nanousd=int(plan.value[k]),
                        chosen=taken,
                    ),
                    at_ns,
                    0,
                )
                if taken:
                    settled(
                        UsageSettled(
                            attempt=_ATTEMPT,
                            target=TargetId(plan.name),
                            pool=pool,
                            route="r",
                            basis="reported",
                            outcome="completed",
                            windows=_uses(plan, k, expected=False),
                            evidence=False,
                        ),
                        at_ns,
                        0,
                    )
        run.finish()


def _uses(plan: Plan, k: int, *, expected: bool) -> tuple[WindowUse, ...]:
    return tuple(
        WindowUse(
            limit.window.id, start_ns, (limit.expected if expected else limit.units)[k], limit.length_ns
        )
        for limit, start_ns in zip(plan.limits, plan.period, strict=True)
    )


def simulate(stream: Stream, plans: Sequence[Plan]) -> None:
    """Every plan decides every request, in time order."""
    estimator = Estimator([plan for plan in plans if plan.policy == "price"])
    others = [plan for plan in plans if plan.policy != "price"]
    step = (stream.at_ns - START_NS) // stream.step_ns
    for requests in np.split(np.arange(step.size), np.flatnonzero(np.diff(step)) + 1):
        estimator.prices(START_NS + int(step[requests[0]]) * stream.step_ns)
        estimator.learn(stream, requests.tolist())
    for plan in others:
        for k, at_ns in enumerate(stream.at_ns.tolist()):
            plan.take(k, at_ns)


def limit_of(stream: Stream, unit: Unit, quota: float, length_ns: int) -> Limit:
    """A window whose limit is `quota` times the mean demand of a period."""
    ones = np.ones(stream.at_ns.size, dtype=np.int64)
    units, expected = (stream.tokens, stream.expected_tokens) if unit == "tokens" else (ones, ones)
    periods = (int(stream.at_ns[-1]) - START_NS) / length_ns
    window = Window(
        id=WindowId(f"{length_ns // NS}s"),
        unit=unit,
        limit=max(1, round(quota * int(units.sum()) / periods)),
        duration_s=length_ns / NS,
        anchor_ns=START_NS,
    )
    return Limit(window, length_ns, units.tolist(), expected.tolist())


def captured(stream: Stream, plan: Plan, saving: FloatArray) -> float:
    """What the plan saved over the most it could have, in the periods that are scored."""
    scored = _scored(stream, max(limit.length_ns for limit in plan.limits))
    share = np.zeros(saving.size)
    share[list(plan.served)] = list(plan.served.values())
    return float(np.sum((share * saving)[scored])) / _bound(stream, plan.limits, saving, scored)


def _scored(stream: Stream, length_ns: int) -> BoolArray:
    """Requests of whole windows of this length that are scored."""
    first = -((START_NS - stream.scored_from_ns) // length_ns)
    end = (stream.ends_ns - START_NS) // length_ns
    periods = _periods(stream, length_ns)
    scored: BoolArray = (periods >= first) & (periods < end)
    return scored


def _bound(stream: Stream, limits: Sequence[Limit], saving: FloatArray, scored: BoolArray) -> float:
    parts = [
        (
            np.array(limit.units, dtype=np.float64)[scored],
            _periods(stream, limit.length_ns)[scored],
            float(limit.window.limit),
        )
        for limit in limits
    ]
    if len(parts) == 1:
        return one_window(saving[scored], *parts[0])
    return two_windows(saving[scored], parts[0], parts[1])


def _periods(stream: Stream, length_ns: int) -> IntArray:
    periods: IntArray = (stream.at_ns - START_NS) // length_ns
    return periods


def shares(
    stream: Stream,
    settings: dict[str, list[Limit]],
    *,
    fallback: bool = True,
    policies: Sequence[Policy] = POLICIES,
) -> dict[str, float]:
    """Share of the hindsight saving by setting and policy. Without a fallback a request is worth its reference
    price, served or lost."""
    value = stream.expected if fallback else stream.reference
    saving = stream.cost if fallback else stream.reference
    plans = [
        Plan(f"{stream.name}:{setting}:{policy}", policy, limits, value.tolist())
        for setting, limits in settings.items()
        for policy in policies
    ]
    simulate(stream, plans)
    return {plan.name: captured(stream, plan, saving) for plan in plans}


def settings_of(stream: Stream) -> dict[str, list[Limit]]:
    """One window, by unit and quota."""
    units: tuple[Unit, ...] = ("requests", "tokens")
    return {
        f"{unit}:{quota}": [limit_of(stream, unit, quota, stream.window_ns)]
        for unit in units
        for quota in QUOTAS
    }


def told_shares(stream: Stream, settings: dict[str, list[Limit]]) -> dict[str, float]:
    """What prices would save that are told of the future, by setting: see `hindsight_told`."""
    found: dict[str, float] = {}
    for setting, limits in settings.items():
        units = np.array(limits[0].expected, dtype=np.float64)
        for told in TOLD:
            plan = Plan(f"{stream.name}:{setting}:{told}", "price", limits, stream.expected.tolist())
            decide_told(stream, plan, told, stream.expected / units, units, limits[0].window.limit)
            found[plan.name] = captured(stream, plan, stream.cost)
    return found


def two_at_once(stream: Stream) -> dict[str, float]:
    """A 5 h window within a weekly one, the weekly one scarcer; scored in the second week."""
    stream = replace(stream, scored_from_ns=START_NS + WEEK_NS)
    limits = [
        limit_of(stream, "requests", 0.8, stream.window_ns),
        limit_of(stream, "requests", 0.5, WEEK_NS),
    ]
    return shares(stream, {"5h and week": limits})


def no_fallback(stream: Stream) -> dict[str, float]:
    """Nothing but the plan: of the worth of what was asked for, how much of what could be served was."""
    settings = {f"no fallback:{q}": [limit_of(stream, "requests", q, stream.window_ns)] for q in QUOTAS}
    return shares(stream, settings, fallback=False)


def run() -> dict[str, float]:
    """Every share, by `stream:setting:policy`, and the headline figures: the mean and the worst setting.

    Raises LookupError without the recorded data.
    """
    folder = Path(os.environ.get("TIDEGATE_SHARED", BESIDE)) / "data"
    if not folder.is_dir():
        raise LookupError(
            "no recorded data: set TIDEGATE_SHARED or put a folder `shared` beside the repository"
        )
    found: dict[str, float] = {}
    streams = [agents(folder, seed) for seed in PLACEMENTS] + [azure(folder, "code"), azure(folder, "conv")]
    for stream in streams:
        found |= shares(stream, settings_of(stream)) | told_shares(stream, settings_of(stream))
    return headlines(found) | found | two_at_once(streams[0]) | no_fallback(streams[0])


def headlines(found: dict[str, float]) -> dict[str, float]:
    """Mean and least share of each policy, one window with a fallback, per kind of stream."""
    made: dict[str, float] = {}
    for kind in ("agents", "azure"):
        for policy in POLICIES:
            each = [share for name, share in found.items() if name.startswith(kind) and name.endswith(policy)]
            label = f"hindsight_saving_{kind}" + ("" if policy == "price" else f"_{policy}")
            made[label] = sum(each) / len(each)
            made[f"{label}_worst"] = min(each)
    return made


def main() -> int:
    """Print and store the figures."""
    found = run()
    for name, share in found.items():
        print(f"{name:<48}{share:8.4f}")
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "hindsight.json").write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
