"""The overlay: nothing counts twice, nothing reopens early, memory is bounded."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from support.planning import NOW_NS, S, ask, flat, plan, routing, target, verdict, window, world
from tidegate.events.causes import Consequence
from tidegate.events.decision import NOTHING_LOCAL, LocalView, WindowUse
from tidegate.events.money import Tokens
from tidegate.events.partition import partition_of
from tidegate.events.types import AttemptId, PoolId, TargetId, WindowId
from tidegate.planner.admission import FOREVER_NS
from tidegate.planner.held import MAX_PENDING
from tidegate.planner.overlay import Overlay
from tidegate.planner.places import places_of

A, P = TargetId("a"), PoolId("p")
W = WindowId("w")
HERE = partition_of(P)


def of(
    overlay: Overlay, now_ns: int = NOW_NS, session: str = "s", asked_tokens: int = 0, **switches: bool
) -> LocalView:
    known = {TargetId(name): off for name, off in switches.items()}
    return overlay.locals_of(places_of([(A, P)]), session, now_ns, known, now_ns, asked_tokens)[0]


def use(units: int, start_ns: int = 0) -> tuple[WindowUse, ...]:
    return (WindowUse(W, start_ns, units),)


def test_a_candidate_nothing_is_known_of_has_the_default_view() -> None:
    assert of(Overlay("gw@1")) is NOTHING_LOCAL


def test_an_open_attempt_counts_in_flight_and_by_its_reserved_use() -> None:
    overlay = Overlay("gw@1")
    overlay.started(AttemptId("1"), A, P, use(10))
    overlay.started(AttemptId("2"), A, P, use(5))
    assert of(overlay) == LocalView(in_flight=2, uses=use(15))


def test_a_settled_attempt_counts_by_its_stated_use_until_it_is_covered() -> None:
    overlay = Overlay("gw@1")
    overlay.started(AttemptId("1"), A, P, use(10))
    overlay.settled(AttemptId("1"), use(7), seq=4)
    assert of(overlay) == LocalView(uses=use(7))
    overlay.applied(HERE, {"gw@1": 3})
    assert of(overlay) == LocalView(uses=use(7))
    overlay.applied(HERE, {"gw@1": 4})
    assert of(overlay) is NOTHING_LOCAL


def test_marks_of_other_sources_and_partitions_cover_nothing() -> None:
    overlay = Overlay("gw@1")
    overlay.started(AttemptId("1"), A, P)
    overlay.settled(AttemptId("1"), use(7), seq=4)
    overlay.failed(A, P, Consequence("failover", "target_cooldown", NOW_NS + S), seq=4)
    before = of(overlay)
    overlay.applied(HERE, {"gw@2": 99})
    overlay.applied(HERE + 1, {"gw@1": 99})
    assert of(overlay) == before


def test_a_settlement_of_an_attempt_never_started_changes_nothing() -> None:
    overlay = Overlay("gw@1")
    overlay.settled(AttemptId("1"), use(7), seq=4)
    assert of(overlay) is NOTHING_LOCAL


def test_an_attempt_that_never_began_holds_neither_place_nor_quota() -> None:
    overlay = Overlay("gw@1")
    overlay.started(AttemptId("1"), A, P, use(10))
    overlay.started(AttemptId("2"), A, P, use(5))
    overlay.undone(AttemptId("1"))
    assert of(overlay) == LocalView(in_flight=1, uses=use(5))
    overlay.undone(AttemptId("2"))
    assert of(overlay) is NOTHING_LOCAL


def test_an_attempt_in_a_pool_without_windows_leaves_nothing_behind() -> None:
    overlay = Overlay("gw@1")
    overlay.started(AttemptId("1"), A, P)
    assert of(overlay) == LocalView(in_flight=1)
    overlay.settled(AttemptId("1"), (), seq=4)
    assert of(overlay) is NOTHING_LOCAL


def test_uses_of_two_periods_are_kept_apart() -> None:
    overlay = Overlay("gw@1")
    overlay.started(AttemptId("1"), A, P, use(10, start_ns=1))
    overlay.started(AttemptId("2"), A, P, use(5, start_ns=2))
    assert of(overlay).uses == (*use(10, 1), *use(5, 2))


@pytest.mark.parametrize("operation", ["target_cooldown", "pool_cooldown"])
def test_an_own_refusal_holds_until_its_end(operation: str) -> None:
    overlay = Overlay("gw@1")
    overlay.failed(A, P, Consequence("failover", operation, NOW_NS + S), seq=1)  # type: ignore[arg-type]
    closed = of(overlay, NOW_NS + S - 1)
    assert (closed.refusing_until_ns or closed.pool_until_ns) == NOW_NS + S
    assert of(overlay, NOW_NS + S) == LocalView()


def test_a_refusal_is_dropped_when_the_snapshots_include_its_last_evidence() -> None:
    overlay = Overlay("gw@1")
    overlay.failed(A, P, Consequence("failover", "target_cooldown", NOW_NS + 9 * S), seq=1)
    overlay.failed(A, P, Consequence("failover", "target_cooldown", NOW_NS + 5 * S), seq=2)
    overlay.failed(A, P, Consequence("failover", "pool_cooldown", NOW_NS + 5 * S), seq=2)
    overlay.applied(HERE, {"gw@1": 1})
    assert of(overlay).refusing_until_ns == NOW_NS + 9 * S
    overlay.applied(HERE, {"gw@1": 2})
    assert of(overlay) is NOTHING_LOCAL


def test_a_credential_failure_closes_until_an_operator_opens() -> None:
    overlay = Overlay("gw@1")
    overlay.failed(A, P, Consequence("failover", "target_disable"), seq=1)
    assert of(overlay, NOW_NS + 10**18).refusing_until_ns == FOREVER_NS
    overlay.reopened(A)
    assert of(overlay) is NOTHING_LOCAL


def test_a_failure_without_consequence_for_others_closes_nothing() -> None:
    overlay = Overlay("gw@1")
    overlay.failed(A, P, Consequence("failover"), seq=1)
    assert of(overlay) is NOTHING_LOCAL


def test_a_kill_switch_shows_in_the_view() -> None:
    assert of(Overlay("gw@1"), a=True) == LocalView(disabled=True)
    assert of(Overlay("gw@1"), a=False) == LocalView(disabled=False)


def test_a_session_is_remembered_by_what_the_provider_reported() -> None:
    overlay = Overlay("gw@1")
    overlay.remember("s", A, Tokens(10, 70, 20, output=9), NOW_NS)
    assert of(overlay) == LocalView(session_prompt_tokens=100, session_cached_tokens=90, session_at_ns=NOW_NS)
    assert of(overlay, session="other") is NOTHING_LOCAL


def test_usage_without_cache_classes_says_nothing_of_the_cache() -> None:
    overlay = Overlay("gw@1")
    overlay.remember("s", A, Tokens(10, output=9), NOW_NS)
    assert of(overlay).session_cached_tokens is None


def test_a_provider_that_tells_only_what_it_read_may_keep_the_whole_prompt() -> None:
    overlay = Overlay("gw@1")
    overlay.remember("s", A, Tokens(100, 0, output=9), NOW_NS)
    assert of(overlay).session_cached_tokens == 100
    overlay.remember("s", A, Tokens(100, 0, 0, output=9), NOW_NS)
    assert of(overlay).session_cached_tokens == 0, "it would have told what it wrote"


def test_a_prompt_goes_on_with_the_context_of_its_length() -> None:
    overlay = Overlay("gw@1")
    overlay.remember("s", A, Tokens(90_000, 0), NOW_NS, 100_000)
    overlay.remember("s", A, Tokens(900, 0), NOW_NS + 1, 1_000)
    for asked, prompt in ((101_000, 90_000), (100_000, 90_000), (99_999, 900), (1_000, 900), (10, 900)):
        assert of(overlay, asked_tokens=asked).session_prompt_tokens == prompt, asked


def test_unknown_usage_teaches_nothing() -> None:
    overlay = Overlay("gw@1")
    overlay.remember("s", A, Tokens(), NOW_NS)
    assert of(overlay) is NOTHING_LOCAL


def test_the_session_longest_unused_is_forgotten_first() -> None:
    overlay = Overlay("gw@1", max_sessions=2)
    for session in ("1", "2", "1", "3"):
        overlay.remember(session, A, Tokens(1, 1), NOW_NS)
    known = [session for session in "123" if of(overlay, session=session) is not NOTHING_LOCAL]
    assert known == ["1", "3"]


def test_settled_uses_beyond_the_bound_are_held_until_the_later_is_covered() -> None:
    overlay = Overlay("gw@1")
    for seq in range(MAX_PENDING + 1):
        overlay.started(AttemptId(str(seq)), A, P)
        overlay.settled(AttemptId(str(seq)), use(1), seq)
    overlay.applied(HERE, {"gw@1": 0})
    assert of(overlay).uses == use(MAX_PENDING + 1)
    overlay.applied(HERE, {"gw@1": 1})
    assert of(overlay).uses == use(MAX_PENDING - 1)


class OverlayAgainstList(RuleBasedStateMachine):
    """The overlay agrees with a plain list of everything that happened."""

    def __init__(self) -> None:
        super().__init__()
        self.overlay = Overlay("gw@1")
        self.open: list[tuple[AttemptId, int]] = []
        self.settled: list[tuple[int, int]] = []
        self.count = 0

    @rule(units=st.integers(0, 9))
    def start(self, units: int) -> None:
        self.count += 1
        attempt = AttemptId(str(self.count))
        self.open.append((attempt, units))
        self.overlay.started(attempt, A, P, use(units))

    @rule(units=st.integers(0, 9), which=st.integers(0, 99))
    def settle(self, units: int, which: int) -> None:
        if self.open:
            attempt, _ = self.open.pop(which % len(self.open))
            self.count += 1
            self.settled.append((self.count, units))
            self.overlay.settled(attempt, use(units), self.count)

    @rule(back=st.integers(0, 5))
    def cover(self, back: int) -> None:
        mark = self.count - back
        self.settled = [(seq, units) for seq, units in self.settled if seq > mark]
        self.overlay.applied(HERE, {"gw@1": mark})

    @invariant()
    def agrees(self) -> None:
        local = of(self.overlay)
        units = sum(units for _, units in self.open) + sum(units for _, units in self.settled)
        assert sum(each.units for each in local.uses) == units
        assert local.in_flight == len(self.open)


OverlayAgainstList.TestCase.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
TestOverlayAgainstList = OverlayAgainstList.TestCase


def test_workers_that_share_a_cap_keep_to_it_together() -> None:
    """Each counts its own attempts once per worker: two workers may each run half of what one could."""
    overlay = Overlay("gw@1", workers=2)
    overlay.started(AttemptId("x"), TargetId("a"), PoolId("p"))
    assert of(overlay).in_flight == 2
    overlay.settled(AttemptId("x"), (), 5)
    assert of(overlay) is NOTHING_LOCAL


@pytest.mark.parametrize("workers", [2, 3, 4, 7, 16])
@pytest.mark.parametrize("limit", [1, 5, 20, 1_000])
def test_a_burst_over_workers_that_share_a_window_keeps_to_it(workers: int, limit: int) -> None:
    """Together they send what is left, and never more than the rounding of their shares."""
    view = world(routing([target("a", pool="p")], [flat("p", window("w", "requests", limit))]))
    overlays = [Overlay(f"gw-{n}@1", workers=workers) for n in range(workers)]
    sent = 0
    for turn in range(4 * limit + workers):
        overlay = overlays[turn % workers]
        local = of(overlay)
        made = plan(view, ask(), {"a": local})
        if made.chosen is None:
            assert verdict(made, "a").reason == "window_exhausted"
            continue
        sent += 1
        overlay.started(AttemptId(str(sent)), A, P, verdict(made, "a").uses)
    assert limit <= sent < limit + workers


def test_what_the_snapshots_cover_counts_once_again() -> None:
    overlay = Overlay("gw@1", workers=4)
    overlay.started(AttemptId("1"), A, P, use(10))
    overlay.started(AttemptId("2"), A, P, use(1))
    assert of(overlay).uses == use(44)
    overlay.settled(AttemptId("1"), use(3), seq=4)
    assert of(overlay).uses == use(16)
    overlay.applied(HERE, {"gw@1": 4})
    assert of(overlay).uses == use(4)
    overlay.undone(AttemptId("2"))
    assert of(overlay) is NOTHING_LOCAL


TARGETS = [TargetId(name) for name in "abcd"]
POOLS = [PoolId(name) for name in "pq"]


@given(
    pairs=st.lists(st.tuples(st.sampled_from(TARGETS), st.sampled_from(POOLS)), max_size=6),
    targets=st.lists(st.sets(st.sampled_from(TARGETS)), max_size=3),
    pools=st.sets(st.sampled_from(POOLS)),
)
def test_the_places_of_which_something_is_known_are_all_found_and_no_others(
    pairs: list[tuple[TargetId, PoolId]], targets: list[set[TargetId]], pools: set[PoolId]
) -> None:
    places = places_of(pairs)
    known = set().union(*targets)
    expected = {at for at, (target, pool) in enumerate(pairs) if target in known or pool in pools}
    assert places.pairs == tuple(pairs)
    assert places.touched([dict.fromkeys(held) for held in targets], dict.fromkeys(pools)) == expected
