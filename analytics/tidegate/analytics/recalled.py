"""A decision put together from rows of the read model, for when the log that holds it does not answer."""

from typing import Any

import msgspec

from tidegate.analytics.ports import SqlSource
from tidegate.analytics.sql import ask
from tidegate.events.decision import DecisionMade

_ASK = (
    "request tenant key_id route dialect session stream vision tools reasoning input_tokens max_output_tokens"
)
_DECISION = "now_ns seed config code decide_version strategy chosen retry_at_ns took_ns"
_PRICE = "cash quota retry time switch"
_CANDIDATE = (
    "target pool target_version pool_version grade reason detail retry_at_ns rank"
    " expected_cached_tokens expected_output_tokens p_exhaust propensity ejected"
)
_USE = "period_start_ns units duration_ns first_request rolling peak"


def _listed(names: str) -> str:
    return ", ".join(names.split())


_RECORDED = f"SELECT {_listed(_ASK)}, {_listed(_DECISION)} FROM r_decisions WHERE decision = $id LIMIT 1"  # noqa: S608 - own names
_CANDIDATES = (
    f"SELECT {_listed(_CANDIDATE)}, service_tier, price_nanousd, "  # noqa: S608 - own names
    + ", ".join(f"{name}_nanousd" for name in _PRICE.split())
    + " FROM r_candidates WHERE decision = $id ORDER BY place"
)
_USES = f"SELECT target, window_id, {_listed(_USE)} FROM r_planned_uses WHERE decision = $id"  # noqa: S608 - own names


async def recall_decision(source: SqlSource, decision: str) -> DecisionMade | None:
    """The decision of this id as its rows tell it; None when there is none.

    Rows do not hold what only its gateway knew (`local`), nor the dialects a request could be put in: enough to
    explain a decision, not to replay it. Raises Refused, Unavailable.
    """
    recorded = (await ask(source, _RECORDED, {"id": decision})).records()
    if not recorded:
        return None
    row = recorded[0]
    candidates = (await ask(source, _CANDIDATES, {"id": decision})).records()
    uses: dict[str, list[dict[str, Any]]] = {}
    for use in (await ask(source, _USES, {"id": decision})).records():
        uses.setdefault(use.pop("target"), []).append({"window": use.pop("window_id"), **use})
    asked = {name: row[name] for name in _ASK.split() if name != "key_id"}
    tiers = [
        (each["target"], each["service_tier"]) for each in candidates if each["service_tier"] is not None
    ]
    fields = {
        **{name: row[name] for name in _DECISION.split()},
        "decision": decision,
        "ask": {**_known(asked), "key": row["key_id"], "service_tiers": tiers},
        "candidates": [_candidate(each, uses.get(each["target"], [])) for each in candidates],
    }
    return msgspec.convert(_known(fields), DecisionMade)


def _candidate(row: dict[str, Any], uses: list[dict[str, Any]]) -> dict[str, Any]:
    price = {name: row[f"{name}_nanousd"] for name in _PRICE.split()} | {"total": row["price_nanousd"]}
    fields = {name: row[name] for name in _CANDIDATE.split()}
    return _known({**fields, "price": None if price["total"] is None else price, "uses": uses})


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    """What is null is left to the field's default, as it was when it was recorded."""
    return {name: value for name, value in fields.items() if value is not None}
