"""A recorded decision in words: five lines for people, one mapping for programs. Pure."""

from collections.abc import Mapping

from tidegate.events.decision import CandidateVerdict, DecisionMade, PriceParts, by_rank
from tidegate.events.money import dollars

NS_PER_S = 1_000_000_000
_PARTS = "cash", "quota", "retry", "time", "switch"


def explain(decision: DecisionMade) -> str:
    """Five lines: target, price parts, runner-up and gap, reason per rejected target, what was read."""
    ranked = by_rank(decision.candidates)
    return "\n".join(
        [
            _target_line(decision, ranked),
            _price_line(decision, ranked),
            _runner_up_line(ranked),
            _rejected_line(decision),
            _inputs_line(decision),
        ]
    )


def explanation(decision: DecisionMade) -> dict[str, object]:
    """The same facts for `--json`; money in nano-dollars, times in nanoseconds since the epoch."""
    ranked = by_rank(decision.candidates)
    return {
        "decision": decision.decision,
        "route": decision.ask.route,
        "strategy": decision.strategy,
        "chosen": _candidate(decision, ranked[0]) if ranked else None,
        "runner_up": {**_candidate(decision, ranked[1]), "gap_nanousd": _gap(ranked)}
        if len(ranked) > 1
        else None,
        "rejected": [
            {
                "target": verdict.target,
                "reason": verdict.reason,
                "detail": verdict.detail,
                "retry_at_ns": verdict.retry_at_ns,
            }
            for verdict in _rejected(decision)
        ],
        "retry_at_ns": decision.retry_at_ns,
        "config": decision.config,
        "snapshots": {
            verdict.target: {"target": verdict.target_version, "pool": verdict.pool_version}
            for verdict in decision.candidates
        },
        "decide_version": decision.decide_version,
        "code": decision.code,
        "now_ns": decision.now_ns,
        "seed": decision.seed,
    }


def _rejected(decision: DecisionMade) -> list[CandidateVerdict]:
    return [verdict for verdict in decision.candidates if verdict.rank is None]


def _price(verdict: CandidateVerdict) -> PriceParts:
    return verdict.price or PriceParts()


def _gap(ranked: list[CandidateVerdict]) -> int:
    return _price(ranked[1]).total - _price(ranked[0]).total


def _candidate(decision: DecisionMade, verdict: CandidateVerdict) -> Mapping[str, object]:
    price = _price(verdict)
    return {
        "target": verdict.target,
        "pool": verdict.pool,
        "price_nanousd": {name: getattr(price, name) for name in (*_PARTS, "total")},
        "expected_cached_tokens": verdict.expected_cached_tokens,
        "expected_output_tokens": verdict.expected_output_tokens,
        "service_tier": dict(decision.ask.service_tiers).get(verdict.target),
        "ejected": verdict.ejected,
        "uses": [
            {"window": use.window, "period_start_ns": use.period_start_ns, "units": use.units}
            for use in verdict.uses
        ],
    }


def _target_line(decision: DecisionMade, ranked: list[CandidateVerdict]) -> str:
    how = f"route {decision.ask.route} by {decision.strategy}"
    if ranked:
        chosen = ranked[0]
        return f"target: {chosen.target} (pool {chosen.pool}) for ${dollars(_price(chosen).total)}, {how}"
    again = "no end known"
    if decision.retry_at_ns is not None:
        again = f"retry in {_seconds(decision, decision.retry_at_ns)}"
    return f"target: none, {len(decision.candidates)} candidates refused, {again}, {how}"


def _price_line(decision: DecisionMade, ranked: list[CandidateVerdict]) -> str:
    if not ranked:
        return "price: none"
    chosen = ranked[0]
    price = _price(chosen)
    parts = " + ".join([f"{name} ${dollars(getattr(price, name))}" for name in _PARTS])
    cached = "cache unknown"
    if chosen.expected_cached_tokens is not None:
        cached = f"{chosen.expected_cached_tokens} cached"
    tier = dict(decision.ask.service_tiers).get(chosen.target)
    at_tier = "" if tier is None else f", at service tier {tier}"
    return (
        f"price: {parts}; expects {decision.ask.input_tokens} input tokens ({cached}),"
        f" {chosen.expected_output_tokens} output tokens{at_tier}"
    )


def _runner_up_line(ranked: list[CandidateVerdict]) -> str:
    if len(ranked) < 2:
        return "runner-up: none"
    second, gap = ranked[1], _gap(ranked)
    apart = f"${dollars(abs(gap))} {'dearer' if gap > 0 else 'cheaper'}" if gap else "the same"
    ejected = ", ejected: it fails too often" if second.ejected else ""
    return f"runner-up: {second.target} for ${dollars(_price(second).total)}, {apart}{ejected}"


def _rejected_line(decision: DecisionMade) -> str:
    return "rejected: " + ("; ".join([_reason(decision, each) for each in _rejected(decision)]) or "none")


def _reason(decision: DecisionMade, verdict: CandidateVerdict) -> str:
    facts = [verdict.detail] if verdict.detail else []
    if verdict.retry_at_ns is not None:
        facts.append(f"retry in {_seconds(decision, verdict.retry_at_ns)}")
    return f"{verdict.target} {verdict.reason}" + (f" ({', '.join(facts)})" if facts else "")


def _inputs_line(decision: DecisionMade) -> str:
    versions = ", ".join(
        [
            f"{each.target} {_version(each.target_version)}/{_version(each.pool_version)}"
            for each in decision.candidates
        ]
    )
    digest = decision.config.removeprefix("sha256:")[:12]
    return (
        f"read: config {digest}, snapshots target/pool: {versions};"
        f" decide {decision.decide_version}, code {decision.code}, seed {decision.seed}"
    )


def _version(version: int | None) -> str:
    return "-" if version is None else str(version)


def _seconds(decision: DecisionMade, at_ns: int) -> str:
    return f"{(at_ns - decision.now_ns) / NS_PER_S:.1f} s"
