"""What seldom comes to the fold: nothing measured, nothing listed, windows without a length, repeated failures."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from support.signals import START_NS
from tidegate.estimator.fold import Folding, Signal, fold
from tidegate.estimator.state import Row, State
from tidegate.events.cooldown import Cooldown
from tidegate.events.decision import WindowUse
from tidegate.events.envelope import Envelope
from tidegate.events.money import ListPrice, Tokens
from tidegate.events.registry import type_of
from tidegate.events.signals import (
    AttemptFailed,
    DemandSeen,
    FirstTokenSeen,
    SettlementCorrected,
    UsageSettled,
)
from tidegate.events.types import AttemptId, DecisionId, EventId, PoolId, SourceId, TargetId, WindowId

S = 10**9
PRICE = ListPrice(input_uncached=3_000_000_000, output=15_000_000_000)
_seqs = itertools.count(1)


def signal(data: Any, at_s: float = 0.0) -> Signal:
    kind, version = type_of(data)
    seq = next(_seqs)
    envelope = Envelope(
        id=EventId(f"e{seq}"),
        type=kind,
        v=version,
        ts=START_NS + int(at_s * S),
        source=SourceId("gw@1"),
        seq=seq,
        data=msgspec.Raw(b"{}"),
    )
    return Signal(3, envelope, data)


def settled(**changes: Any) -> UsageSettled:
    fields: dict[str, Any] = {
        "attempt": AttemptId("a"),
        "target": TargetId("t"),
        "pool": PoolId("p"),
        "route": "r",
        "basis": "reported",
        "outcome": "completed",
        "tokens": Tokens(input_uncached=1_000, output=100),
        "cost_nanousd": 4_500_000,
        "price": PRICE,
        "duration_ns": 5 * S,
        "ttft_ns": S,
    }
    return UsageSettled(**{**fields, **changes})


def corrected(**changes: Any) -> SettlementCorrected:
    fields: dict[str, Any] = {
        "attempt": AttemptId("a"),
        "target": TargetId("t"),
        "pool": PoolId("p"),
        "delta_nanousd": 5,
        "tokens": Tokens(input_uncached=1_000, output=100),
        "billed_nanousd": 4_500_005,
        "evidence": "bill",
        "correction": 0,
    }
    return SettlementCorrected(**{**fields, **changes})


def failed(**changes: Any) -> AttemptFailed:
    fields: dict[str, Any] = {
        "attempt": AttemptId("a"),
        "target": TargetId("t"),
        "pool": PoolId("p"),
        "cause": "transport",
        "phase": "connect",
        "rule": "x",
    }
    return AttemptFailed(**{**fields, **changes})


def of(*signals: Signal) -> State:
    state = State()
    fold(state, list(signals))
    return state


def target_row(state: State) -> bytes:
    return msgspec.json.encode(state.target_row(TargetId("t")))


@pytest.mark.parametrize("output", [None, 0])
def test_an_answer_of_unknown_or_no_length_teaches_neither_length_nor_speed(output: int | None) -> None:
    tokens = Tokens(input_uncached=1_000, output=output)
    silent = of(signal(settled(tokens=tokens)))
    again = of(signal(settled(tokens=tokens, duration_ns=900 * S)))
    assert target_row(silent) == target_row(again)


@pytest.mark.parametrize(
    "unmeasured", [{"duration_ns": None}, {"ttft_ns": None}, {"duration_ns": S, "ttft_ns": S}]
)
def test_an_answer_whose_time_is_unknown_or_nothing_teaches_no_speed(unmeasured: dict[str, Any]) -> None:
    fast = of(signal(settled()), signal(settled(duration_ns=6 * S), 9.0))
    silent = of(signal(settled()), signal(settled(**unmeasured), 9.0))
    measured = of(signal(settled()), signal(settled(duration_ns=7 * S), 9.0))
    assert len({target_row(fast), target_row(silent), target_row(measured)}) == 3


def test_an_attempt_that_is_no_evidence_teaches_nothing_of_its_target() -> None:
    nothing = of(signal(settled(evidence=False)))
    assert target_row(nothing) == target_row(of(signal(settled(evidence=False, duration_ns=900 * S))))
    assert target_row(nothing) != target_row(of(signal(settled())))


def test_a_failure_that_the_request_explains_itself_says_nothing_of_its_target() -> None:
    patient = of(*[signal(failed(cause="unavailable", evidence=False), at) for at in (0.0, 1.0, 2.0)])
    assert target_row(patient) == target_row(of(signal(failed(cause="invalid_request"))))
    closing = of(*[signal(failed(cause="unavailable"), at) for at in (0.0, 1.0, 2.0)])
    assert target_row(patient) != target_row(closing)


def test_a_window_without_a_length_gets_no_series() -> None:
    def use(duration_ns: int) -> WindowUse:
        return WindowUse(WindowId("w"), START_NS, 1, duration_ns)

    without = of(
        signal(settled(windows=(use(0),))),
        signal(
            DemandSeen(decision=DecisionId("d"), pool=PoolId("p"), windows=(use(0),), alternative_nanousd=5)
        ),
    )
    assert without.windows == {}
    assert len(of(signal(settled(windows=(use(60 * S),)))).windows) == 1


def test_no_demand_without_windows_and_the_same_series_for_its_next() -> None:
    use = WindowUse(WindowId("w"), START_NS, 1, 60 * S)
    seen = DemandSeen(decision=DecisionId("d"), pool=PoolId("p"), windows=(use,), alternative_nanousd=5)
    assert len(of(signal(seen), signal(seen, 1.0)).windows) == 1
    assert (
        of(
            signal(DemandSeen(decision=DecisionId("d"), pool=PoolId("p"), windows=(), alternative_nanousd=5))
        ).windows
        == {}
    )


@pytest.mark.parametrize("ttft_ns", [0, -5])
def test_a_first_token_in_no_time_is_no_measurement(ttft_ns: int) -> None:
    def seen(value: int) -> FirstTokenSeen:
        return FirstTokenSeen(
            attempt=AttemptId("a"), target=TargetId("t"), pool=PoolId("p"), ttft_ns=value, input_tokens=10
        )

    assert target_row(of(signal(seen(ttft_ns)))) == target_row(of(signal(seen(ttft_ns - 1))))
    assert target_row(of(signal(seen(S)))) != target_row(of(signal(seen(2 * S))))


def test_a_correction_of_a_target_without_a_list_price_teaches_no_price() -> None:
    assert target_row(of(signal(corrected()))) == target_row(of(signal(corrected(billed_nanousd=9))))


def test_a_correction_that_does_not_say_the_bill_teaches_no_price() -> None:
    known = of(signal(settled()), signal(corrected(billed_nanousd=None), 1.0))
    assert target_row(known) == target_row(
        of(signal(settled()), signal(corrected(billed_nanousd=None, delta_nanousd=9), 1.0))
    )


def test_a_bill_over_what_is_listed_free_teaches_no_price() -> None:
    free = settled(price=ListPrice(input_uncached=0, output=0), cost_nanousd=0)
    one = of(signal(free), signal(corrected(billed_nanousd=7), 1.0))
    assert target_row(one) == target_row(of(signal(free), signal(corrected(billed_nanousd=None), 1.0)))


@pytest.mark.parametrize("tokens", [Tokens(input_uncached=1_000), Tokens(output=100), Tokens()])
def test_a_bill_of_unknown_use_teaches_no_price(tokens: Tokens) -> None:
    one = of(signal(settled()), signal(corrected(tokens=tokens), 1.0))
    assert target_row(one) == target_row(of(signal(settled()), signal(corrected(billed_nanousd=None), 1.0)))


def test_what_was_billed_moves_the_price() -> None:
    one = of(signal(settled()), signal(corrected(), 1.0))
    other = of(signal(settled()), signal(corrected(billed_nanousd=9_000_000), 1.0))
    assert target_row(one) != target_row(other)


def test_a_bill_against_a_list_price_without_output_teaches_no_price() -> None:
    half = ListPrice(input_uncached=3_000_000_000)
    one = of(signal(settled(price=half)), signal(corrected(), 1.0))
    other = of(signal(settled(price=half)), signal(corrected(billed_nanousd=None), 1.0))
    assert target_row(one) == target_row(other)


def test_a_longer_closing_holds_and_a_shorter_one_does_not_cut_it() -> None:
    quota = {"cause": "quota_exhausted", "reset_at_ns": START_NS + 900 * S}
    long = of(signal(failed(**quota)))
    pool = long.pools[PoolId("p")]
    until_ns = long.pool_cooldown[pool].until_ns
    assert until_ns == START_NS + 900 * S
    after = of(signal(failed(**quota)), signal(failed(**{**quota, "reset_at_ns": START_NS + 60 * S}), 1.0))
    assert after.pool_cooldown[after.pools[PoolId("p")]].until_ns == until_ns


def test_a_success_reopens_a_target_that_failed() -> None:
    closed = of(*(signal(failed(), n) for n in range(5)))
    index = closed.targets[TargetId("t")]
    assert closed.target_cooldown[index].until_ns is not None
    opened = of(*(signal(failed(), n) for n in range(5)), signal(settled(duration_ns=S), 5.0))
    assert opened.target_cooldown[index] == Cooldown()


@pytest.mark.parametrize("cause", ["transport", "auth"])
@pytest.mark.parametrize(("duration_s", "opens"), [(1, True), (2, False), (60, False), (None, None)])
def test_only_a_success_that_began_after_a_closing_opens_it(
    cause: str, duration_s: int | None, opens: bool | None
) -> None:
    duration_ns = None if duration_s is None else duration_s * S
    state = of(
        *(signal(failed(cause=cause), n) for n in range(5)),
        signal(settled(duration_ns=duration_ns), 5.0 if cause == "transport" else 1.0),
    )
    if opens is None:  # when it began is not known: no more than a guess is undone
        opens = cause == "transport"
    assert (state.target_cooldown[0] == Cooldown()) is opens


def test_failures_of_one_moment_are_one_strike_and_close_nothing() -> None:
    blip = of(*(signal(failed(cause="unavailable", status=503), n / 40) for n in range(40)))
    assert (blip.target_cooldown[0].strikes, blip.target_cooldown[0].until_ns) == (1, None)
    fold_ = Folding(blip)
    fold_.finish()
    assert not fold_.urgent


def test_the_cooldown_survives_a_restart_bit_by_bit() -> None:
    signals = [signal(failed(), n) for n in (*range(5), 40, 41, 120)]
    restored = State()
    fold(restored, signals[:6])
    row = msgspec.json.decode(msgspec.json.encode(restored.target_row(TargetId("t"))), type=Row)
    again = State()
    again.load(row, 3)
    fold(again, signals[6:])
    assert target_row(again) == target_row(of(*signals))
    assert again.target_cooldown[0].closings == 3


@pytest.mark.parametrize("cut", [False, True])
def test_a_bill_gives_back_quota_in_the_period_it_was_settled_in_and_teaches_no_rate(cut: bool) -> None:
    hour = 3_600 * S
    use = WindowUse(WindowId("w"), START_NS, 100_000, hour)
    back = msgspec.structs.replace(use, units=-98_990)
    later = msgspec.structs.replace(use, period_start_ns=START_NS + hour, units=5)
    signals = [
        signal(settled(windows=(use,)), 10.0),
        signal(corrected(windows=(back,)), 20.0),
        signal(settled(windows=(later,)), 3_700.0),
        signal(corrected(windows=(msgspec.structs.replace(back, units=-10),)), 3_800.0),
    ]
    state = State()
    for part in [signals[:1], signals[1:2], signals[2:3], signals[3:]] if cut else [signals]:
        fold(state, part)
    series = state.windows[0, WindowId("w")]
    start, used, _, previous_start, previous_used, *_ = state.ledger.row(series)
    assert (start, used) == (START_NS + hour, 5)
    assert (previous_start, previous_used) == (START_NS, 1_000)
    plain = State()
    fold(plain, [signal(settled(windows=(use,)), 10.0), signal(settled(windows=(later,)), 3_700.0)])
    assert state.use.row(series) == plain.use.row(plain.windows[0, WindowId("w")])
