"""A target's snapshot holds finished numbers: latency by prompt, output by route, what the cache keeps."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from tidegate.estimator.fold import Signal, fold
from tidegate.estimator.publish import PROMPT_TOKENS, publish
from tidegate.estimator.state import Row, State
from tidegate.events.config import Routing, Target
from tidegate.events.envelope import Envelope
from tidegate.events.money import Tokens
from tidegate.events.registry import type_of
from tidegate.events.signals import AttemptFailed, FirstTokenSeen, UsageSettled
from tidegate.events.snapshots import TargetBelief
from tidegate.events.types import AttemptId, Cause, EventId, PoolId, SourceId, TargetId

S = 10**9
NOW_NS = 1_800_000_000 * S
ROUTING = Routing(
    targets=(Target(id=TargetId("t"), dialect="openai", base_url="http://127.0.0.1:9", model="m"),)
)
_seqs = itertools.count(1)


def signal(data: Any) -> Signal:
    kind, version = type_of(data)
    seq = next(_seqs)
    envelope = Envelope(
        id=EventId(f"e{seq}"),
        type=kind,
        v=version,
        ts=NOW_NS + seq * S,
        source=SourceId("gw@1"),
        seq=seq,
        data=msgspec.Raw(b"{}"),
    )
    return Signal(0, envelope, data)


def settled(**changes: Any) -> Signal:
    fields: dict[str, Any] = {
        "attempt": AttemptId("a"),
        "target": TargetId("t"),
        "pool": PoolId("t"),
        "route": "chat",
        "basis": "reported",
        "outcome": "completed",
        "tokens": Tokens(input_uncached=100, cache_read=900, output=400),
    }
    return signal(UsageSettled(**(fields | changes)))


def first_token(ttft_ms: int, prompt: int) -> Signal:
    data = FirstTokenSeen(
        attempt=AttemptId("a"),
        target=TargetId("t"),
        pool=PoolId("t"),
        ttft_ns=ttft_ms * 10**6,
        input_tokens=prompt,
    )
    return signal(data)


def believed(*signals: Signal) -> TargetBelief:
    state = State()
    fold(state, signals)
    restored = State()
    row = msgspec.json.decode(msgspec.json.encode(state.target_row(TargetId("t"))), type=Row)
    restored.load(row, 0)
    made = [
        publish(each, NOW_NS, ROUTING, [TargetId("t")], []).targets[TargetId("t")]
        for each in (state, restored)
    ]
    assert made[0] == made[1]
    return msgspec.json.decode(msgspec.json.encode(made[0]), type=TargetBelief)


def test_the_time_to_the_first_token_is_told_by_the_length_of_the_prompt() -> None:
    pairs = [(200, 1_000), (420, 8_000), (900, 32_000)] * 30
    belief = believed(*[first_token(*pair) for pair in pairs])
    assert [at.prompt_tokens for at in belief.ttft_by_prompt] == list(PROMPT_TOKENS)
    means = [at.mean_ms for at in belief.ttft_by_prompt]
    assert means == sorted(means)
    assert means[0] == pytest.approx(200, rel=0.25)
    assert means[2] == pytest.approx(900, rel=0.25)
    assert all(at.p90_ms > at.mean_ms * 0.9 for at in belief.ttft_by_prompt)


def test_what_was_never_seen_is_not_told() -> None:
    belief = believed(settled(outcome="failed", basis="none", tokens=Tokens()))
    assert belief.ttft_by_prompt == ()
    assert belief.output_tokens_by_route == {}
    assert belief.cached_share is None
    assert belief.cache_by_age == ()


def test_output_is_expected_by_route() -> None:
    short = [settled(route="title", tokens=Tokens(input_uncached=10, output=12)) for _ in range(40)]
    belief = believed(*[settled() for _ in range(40)], *short)
    by_route = belief.output_tokens_by_route
    assert by_route["chat"].mean > 5 * by_route["title"].mean
    assert belief.output_tokens is not None
    assert by_route["title"].mean < belief.output_tokens.mean < 2 * by_route["chat"].mean


def test_the_cached_share_of_a_prompt_is_a_number_with_variance() -> None:
    belief = believed(*[settled() for _ in range(50)])
    assert belief.cached_share is not None
    assert belief.cached_share.mean == pytest.approx(0.9, abs=0.02)
    assert 0 < belief.cached_share.var < 0.01


def test_survival_is_learned_from_the_prefix_a_session_left() -> None:
    warm = [settled(prefix_tokens=900, prefix_age_ns=100 * S) for _ in range(50)]
    cold = [
        settled(
            prefix_tokens=900,
            prefix_age_ns=1_000 * S,
            tokens=Tokens(input_uncached=50, cache_read=0, cache_write_5m=900, cache_write_1h=50, output=4),
        )
        for _ in range(50)
    ]
    by_age = {each.to_age_s: each.kept for each in believed(*warm, *cold).cache_by_age}
    assert by_age[300.0].mean > 0.9
    assert by_age[3_600.0].mean < 0.1
    assert by_age[None].prior
    assert by_age[60.0].mean >= by_age[300.0].mean


def test_usage_without_a_prompt_or_without_its_cache_says_nothing_of_it() -> None:
    nothing = settled(tokens=Tokens(input_uncached=0, cache_read=0, output=1))
    unknown = settled(tokens=Tokens(input_uncached=10, output=1), prefix_tokens=5, prefix_age_ns=S)
    assert believed(nothing, unknown).cached_share is None


def failed(cause: Cause) -> Signal:
    data = AttemptFailed(
        attempt=AttemptId("a"), target=TargetId("t"), pool=PoolId("t"), cause=cause, phase="body", rule="r"
    )
    return signal(data)


def test_a_target_is_ejected_by_evidence_never_by_its_prior() -> None:
    fresh = believed(settled())
    assert fresh.error_lower is not None
    assert fresh.success_lower is not None
    assert fresh.error_lower < 0.05 < fresh.success_lower < 1.0
    assert (fresh.ejected, fresh.suspected, fresh.throttled) == (False, False, 0.0)
    once = believed(settled(), failed("unavailable"))
    assert not once.ejected
    ill = believed(*[settled() for _ in range(20)], *[failed("unavailable") for _ in range(10)])
    assert ill.ejected
    assert ill.suspected


def test_throttling_is_told_apart_from_ill_health() -> None:
    busy = believed(*[settled() for _ in range(20)], *[failed("rate_limited") for _ in range(10)])
    assert busy.throttled > 9
    assert not busy.ejected
