"""A decision in five lines: they fit, say the same as the whole, and count what they leave out."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.history import History
from tidegate.events.decision import CandidateVerdict, DecisionMade
from tidegate.events.types import PoolId, TargetId
from tidegate.runtime.commands.brief import five_lines

MADE = [e.draft.data for e in History().day(200).events if isinstance(e.draft.data, DecisionMade)]
HEADS = ["target", "price", "runner-up", "rejected", "read"]


def with_rejected(decision: DecisionMade, count: int, name: str) -> DecisionMade:
    more = tuple(
        CandidateVerdict(
            target=TargetId(f"{name}-{n}"), pool=PoolId("p"), reason="circuit_refusing", detail="x" * 30
        )
        for n in range(count)
    )
    return msgspec.structs.replace(decision, candidates=(*decision.candidates, *more))


@given(
    decision=st.sampled_from(MADE),
    rejected=st.integers(0, 30),
    name=st.text("abcdefgh-", min_size=1, max_size=120),
    width=st.sampled_from([60, 78, 80, 200]),
)
def test_five_lines_that_fit_whatever_the_decision(
    decision: DecisionMade, rejected: int, name: str, width: int
) -> None:
    lines = five_lines(with_rejected(decision, rejected, name), width).split("\n")
    assert [line.split(":")[0] for line in lines] == HEADS
    assert max(map(len, lines)) <= width


def test_what_does_not_fit_is_counted() -> None:
    lines = five_lines(with_rejected(MADE[0], 30, "target"), 80).split("\n")
    *shown, more = lines[3].removeprefix("rejected: ").split(", ")
    refused = 30 + sum(verdict.rank is None for verdict in MADE[0].candidates)
    assert 0 < len(shown) < 30
    assert more == f"{refused - len(shown)} more"


def test_the_target_its_price_and_what_it_is_made_of_are_named() -> None:
    decision = next(each for each in MADE if each.candidates and any(v.rank == 0 for v in each.candidates))
    chosen = next(v for v in decision.candidates if v.rank == 0)
    assert chosen.price is not None
    target, price, *_ = five_lines(decision, 200).split("\n")
    assert target.startswith(f"target: {chosen.target} for $")
    assert f"route {decision.ask.route} by {decision.strategy}" in target
    for name in ("cash", "quota", "retry", "time", "switch"):
        assert (f"{name} $" in price) == bool(getattr(chosen.price, name))
    assert f"{decision.ask.input_tokens} tokens in" in price


def test_a_decision_without_a_target_says_when_to_come_again() -> None:
    none = msgspec.structs.replace(
        MADE[0], candidates=(CandidateVerdict(target=TargetId("t"), pool=PoolId("p"), reason="circuit_refusing"),),
        retry_at_ns=MADE[0].now_ns + 2_500_000_000,
    )  # fmt: skip
    lines = five_lines(none, 80).split("\n")
    assert lines[0].startswith("target: none, 1 refused, retry in 2.5 s")
    assert lines[1:4] == ["price: none", "runner-up: none", "rejected: t circuit_refusing"]


@pytest.mark.parametrize("nanousd", [1, 999])
def test_a_price_that_six_places_would_hide_is_shown_to_the_last(nanousd: int) -> None:
    chosen = next(v for v in MADE[0].candidates if v.rank == 0)
    assert chosen.price is not None
    tiny = msgspec.structs.replace(chosen.price, cash=nanousd, quota=0, retry=0, time=0, switch=0)
    decision = msgspec.structs.replace(MADE[0], candidates=(msgspec.structs.replace(chosen, price=tiny),))
    assert f"cash $0.000000{nanousd:03}" in five_lines(decision, 80)


def test_the_service_tier_is_named_where_it_is_not_the_usual_one() -> None:
    made = next(each for each in MADE if any(v.rank == 0 for v in each.candidates))
    chosen = next(v for v in made.candidates if v.rank == 0)
    asked = msgspec.structs.replace(made.ask, service_tiers=((chosen.target, "flex"),))
    assert "service tier" not in five_lines(made, 200)
    assert ", service tier flex, " in five_lines(msgspec.structs.replace(made, ask=asked), 200)
