"""A decision in five lines that fit a terminal. Pure; the whole of it is `planner.explain`."""

from collections.abc import Sequence
from typing import Any

from tidegate.events.decision import DecisionMade
from tidegate.events.money import dollars
from tidegate.planner.explain import explanation

_NANO = 1_000_000_000
_TINY = 1_000
"""Below this many nano-dollars six places would show nothing."""


def five_lines(decision: DecisionMade, width: int) -> str:
    """Target, price, runner-up, rejected, read; what does not fit in `width` is counted, not shown."""
    facts: dict[str, Any] = explanation(decision)
    chosen, next_best = facts["chosen"], facts["runner_up"]
    lines = {
        "target": _target(decision, chosen),
        "price": ["none"] if chosen is None else _price(decision, chosen),
        "runner-up": ["none"] if next_best is None else _runner_up(next_best),
        "rejected": [_rejected(decision, each) for each in facts["rejected"]] or ["none"],
        "read": _read(decision, facts),
    }
    return "\n".join(_fitted(f"{head}: ", parts, width) for head, parts in lines.items())


def _fitted(head: str, parts: Sequence[str], width: int) -> str:
    """As many parts as there is room for; the first is cut rather than left out."""
    line = head + parts[0]
    for shown, part in enumerate(parts[1:], start=1):
        left = len(parts) - shown
        rest = f", {left - 1} more" if left > 1 else ""
        if len(line) + len(f", {part}{rest}") > width:
            line = line[: width - len(f", {left} more")] + f", {left} more"
            break
        line += f", {part}"
    return line if len(line) <= width else line[: width - 1] + "…"


def _target(decision: DecisionMade, chosen: dict[str, Any] | None) -> list[str]:
    how = f"route {decision.ask.route} by {decision.strategy}"
    if chosen is None:
        again = (
            "no end known"
            if decision.retry_at_ns is None
            else f"retry in {_in(decision, decision.retry_at_ns)}"
        )
        return ["none", f"{len(decision.candidates)} refused", again, how]
    pool = [] if chosen["pool"] == chosen["target"] else [f"pool {chosen['pool']}"]
    return [f"{chosen['target']} for {_money(chosen['price_nanousd']['total'])}", how, *pool]


def _price(decision: DecisionMade, chosen: dict[str, Any]) -> list[str]:
    """What is part of the price, the largest first, then the tokens it was reckoned with."""
    parts = {name: part for name, part in chosen["price_nanousd"].items() if name != "total" and part}
    ordered = sorted(parts.items(), key=lambda item: -abs(item[1]))
    cached, tier = chosen["expected_cached_tokens"], chosen["service_tier"]
    return [
        *([f"{name} {_money(part)}" for name, part in ordered] or ["nothing"]),
        *([] if tier is None else [f"service tier {tier}"]),
        f"{decision.ask.input_tokens} tokens in",
        "cache unknown" if cached is None else f"{cached} cached",
        f"{chosen['expected_output_tokens']} out",
    ]


def _runner_up(second: dict[str, Any]) -> list[str]:
    gap = second["gap_nanousd"]
    apart = f"{_money(abs(gap))} {'dearer' if gap > 0 else 'cheaper'}" if gap else "the same"
    return [f"{second['target']} for {_money(second['price_nanousd']['total'])}", apart]


def _rejected(decision: DecisionMade, each: dict[str, Any]) -> str:
    again = each["retry_at_ns"]
    return f"{each['target']} {each['reason']}" + ("" if again is None else f" for {_in(decision, again)}")


def _read(decision: DecisionMade, facts: dict[str, Any]) -> list[str]:
    versions = [
        f"snapshot {target} {'-' if read['target'] is None else read['target']}"
        for target, read in facts["snapshots"].items()
    ]
    config = decision.config.removeprefix("sha256:")[:12]
    return [f"config {config}", f"decide {decision.decide_version}", f"code {decision.code}", *versions]


def _money(nanousd: int) -> str:
    return f"${dollars(nanousd)}" if abs(nanousd) < _TINY else f"${nanousd / _NANO:.6f}"


def _in(decision: DecisionMade, at_ns: int) -> str:
    return f"{(at_ns - decision.now_ns) / _NANO:.1f} s"
