"""Decide again from what a decision recorded, and say where the two differ. Pure."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tidegate.events.config import Routing
from tidegate.events.decision import CandidateVerdict, DecisionMade, LocalView
from tidegate.events.errors import Refused
from tidegate.events.snapshots import RateSnapshot, pool_subject, target_subject
from tidegate.events.types import PoolId, TargetId
from tidegate.planner.decide import DECIDE_VERSION, decide
from tidegate.planner.view import view_of

_EJECTION_SINCE = 4
_FACTORS_SINCE = 5
REPLAYED_VERSIONS = frozenset({3, 4, DECIDE_VERSION})
"""Versions whose decisions this one makes again bit by bit. 3 knew no service tiers, and its asks tell of none; it did
not read ejection, 4 no factors: neither is told of them."""

Outcome = Literal["identical", "different", "other_version", "input_missing"]


class InputMissing(Refused):
    """A recorded input is not at hand: the config, or a snapshot of the recorded version."""

    code = "input_missing"


class Verification(msgspec.Struct, frozen=True):
    """Outcome of a replay; `detail` names the difference, the other version or the missing input."""

    outcome: Outcome
    detail: str | None = None


def replay(decision: DecisionMade, routing: Routing, snapshots: Mapping[str, RateSnapshot]) -> DecisionMade:
    """The decision that this version makes on the recorded inputs; `took_ns` is copied, being no input, and so is the
    number of a version that decides alike.

    `snapshots` are by subject, each of the version recorded; others than those read are ignored.
    Raises InputMissing.
    """
    read: dict[str, RateSnapshot] = {}
    for verdict in decision.candidates:
        _select(read, snapshots, target_subject(verdict.target), verdict.target_version)
        _select(read, snapshots, pool_subject(verdict.pool), verdict.pool_version)
    if decision.decide_version in REPLAYED_VERSIONS:
        read = {subject: _as_read_by(decision.decide_version, each) for subject, each in read.items()}
    view = view_of(routing, read, only=decision.ask.route)
    if view.digest != decision.config:
        raise InputMissing(f"decision {decision.decision} read config {decision.config}, not {view.digest}")
    if decision.ask.route not in view.routes:
        raise InputMissing(f"config {view.digest} has no route {decision.ask.route!r}")
    verdicts = {verdict.target: verdict for verdict in decision.candidates}

    def local_of(target: TargetId, pool: PoolId) -> LocalView:
        return _recorded(verdicts, target, pool)

    again = decide(
        view,
        decision.ask,
        local_of,
        now_ns=decision.now_ns,
        seed=decision.seed,
        decision=decision.decision,
        code=decision.code,
    )
    version = decision.decide_version if decision.decide_version in REPLAYED_VERSIONS else DECIDE_VERSION
    return msgspec.structs.replace(again, took_ns=decision.took_ns, decide_version=version)


def verify(decision: DecisionMade, routing: Routing, snapshots: Mapping[str, RateSnapshot]) -> Verification:
    """Replay and compare; a decision of a version that may decide otherwise is counted apart, never as identical."""
    if decision.decide_version not in REPLAYED_VERSIONS:
        return Verification(
            "other_version", f"decided by version {decision.decide_version}, this is {DECIDE_VERSION}"
        )
    try:
        again = replay(decision, routing, snapshots)
    except InputMissing as error:
        return Verification("input_missing", str(error))
    difference = first_difference(decision, again)
    return Verification("identical" if difference is None else "different", difference)


def first_difference(a: object, b: object, path: str = "") -> str | None:
    """Path of the first field in which two values differ, with both values; None when they are equal.

    Types count: 1 and 1.0 differ, as their bytes do.
    """
    if type(a) is not type(b):
        return f"{path or 'value'}: {a!r} != {b!r}"
    if isinstance(a, msgspec.Struct):
        for name in a.__struct_fields__:
            found = first_difference(getattr(a, name), getattr(b, name), f"{path}.{name}" if path else name)
            if found is not None:
                return found
        return None
    if isinstance(a, tuple) and isinstance(b, tuple):
        for index, (left, right) in enumerate(zip(a, b, strict=False)):
            found = first_difference(left, right, f"{path}[{index}]")
            if found is not None:
                return found
        return None if len(a) == len(b) else f"{path}: {len(a)} entries != {len(b)} entries"
    return None if a == b else f"{path or 'value'}: {a!r} != {b!r}"


def _select(
    read: dict[str, RateSnapshot], given: Mapping[str, RateSnapshot], subject: str, version: int | None
) -> None:
    if version is None:
        return
    snapshot = given.get(subject)
    if snapshot is None or snapshot.version != version:
        held = "none" if snapshot is None else f"version {snapshot.version}"
        raise InputMissing(f"snapshot {subject} version {version} was read, {held} is at hand")
    read[subject] = snapshot


def _as_read_by(version: int, snapshot: RateSnapshot) -> RateSnapshot:
    """Without what the version did not read."""
    belief = snapshot.target
    if belief is None:
        return snapshot
    if version < _EJECTION_SINCE and belief.ejected:
        belief = msgspec.structs.replace(belief, ejected=False)
    if version < _FACTORS_SINCE and belief.billed is not None:
        belief = msgspec.structs.replace(belief, billed=None)
    return snapshot if belief is snapshot.target else msgspec.structs.replace(snapshot, target=belief)


def _recorded(verdicts: Mapping[TargetId, CandidateVerdict], target: TargetId, pool: PoolId) -> LocalView:
    verdict = verdicts.get(target)
    if verdict is None:
        raise InputMissing(f"no local values of target {target!r} in pool {pool!r} were recorded")
    return verdict.local
