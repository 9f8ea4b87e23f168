"""A made-up day of traffic as events on a log: the same day for the same seed, with every type in it."""

import random
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from tidegate.events.clock import ManualClock
from tidegate.events.codec import encode
from tidegate.events.config import Routing
from tidegate.events.control import ConfigPublished, SourceClosed, TargetDisabled, TargetEnabled
from tidegate.events.decision import (
    Ask,
    CandidateVerdict,
    DecisionMade,
    LocalView,
    PriceParts,
    WindowUse,
)
from tidegate.events.envelope import Draft
from tidegate.events.ids import IdSource, settlement_id
from tidegate.events.log.port import EventLog, Outgoing
from tidegate.events.money import ListPrice, Tokens, cost_nanousd
from tidegate.events.partition import partition_of
from tidegate.events.registry import type_of
from tidegate.events.requests import RequestAdmitted, RequestFinished, RequestRefused
from tidegate.events.signals import (
    AttemptFailed,
    AttemptStarted,
    DemandSeen,
    FirstTokenSeen,
    QuotaObserved,
    SettlementCorrected,
    UsageSettled,
)
from tidegate.events.snapshots import (
    Applied,
    Belief,
    PoolBelief,
    RateSnapshot,
    TargetBelief,
    WindowBelief,
    pool_subject,
    target_subject,
)
from tidegate.events.topics import BY_NAME, CONTROL, REQUESTS, SIGNALS, SNAPSHOTS, Topic
from tidegate.events.types import (
    AttemptId,
    DecisionId,
    EventId,
    KeyId,
    PoolId,
    TargetId,
    WindowId,
)

S = 1_000_000_000
TENANTS = ("acme", "beta", "cobalt")
TARGETS = {"flat-a": "plan", "flat-b": "plan", "metered": "metered", "flaky": "flaky"}
"""Target → pool."""
PRICE = ListPrice(
    input_uncached=3_000_000_000,
    cache_read=300_000_000,
    cache_write_5m=3_750_000_000,
    cache_write_1h=6_000_000_000,
    output=15_000_000_000,
)
ROUTING = Routing()


class Written(NamedTuple):
    """One event with the places it goes to."""

    topic: Topic
    partition_key: str
    record_key: str
    draft: Draft

    def outgoing(self) -> Outgoing:
        """As a record."""
        return Outgoing(
            self.topic.name,
            partition_of(self.partition_key),
            self.record_key.encode(),
            encode(self.draft),
        )


class History:
    """Writes events of a few sources, in order, gap-free per source."""

    def __init__(self, seed: int = 1) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.ids = IdSource(self.clock, self.random.getrandbits)
        self.events: list[Written] = []
        self.sources = {name: self.ids.source(name) for name in ("gw-0", "gw-1", "est", "ctl", "rec")}
        self._seq = dict.fromkeys(self.sources, 0)
        self._versions: dict[str, int] = {}

    def write(
        self,
        topic: Topic,
        partition_key: str,
        record_key: str,
        data: Any,
        *,
        slot: str = "gw-0",
        event_id: str | None = None,
        **context: Any,
    ) -> Written:
        """Append one event of a source."""
        self._seq[slot] += 1
        kind, version = type_of(data)
        draft = Draft(
            id=EventId(event_id or self.ids.next()),
            type=kind,
            v=version,
            ts=self.clock.wall_ns(),
            source=self.sources[slot],
            seq=self._seq[slot],
            data=data,
            **context,
        )
        written = Written(topic, partition_key, record_key, draft)
        self.events.append(written)
        return written

    def outgoing(self) -> list[Outgoing]:
        """All events as records, in the order written."""
        return [event.outgoing() for event in self.events]

    def day(self, requests: int, candidates: int = 4) -> "History":
        """Traffic of every kind: served, failed over, refused early and late, corrected, cancelled."""
        self.write(
            CONTROL,
            "c",
            ROUTING.digest(),
            ConfigPublished(digest=ROUTING.digest(), routing=ROUTING, actor="op"),
            slot="ctl",
        )
        for number in range(requests):
            self.clock.advance_ns(self.random.randrange(1, 60) * S)
            slot = self.random.choice(("gw-0", "gw-1"))
            if number % 17 == 5:
                self.early_refusal(slot)
            else:
                self.request(slot, candidates, number)
            if number % 10 == 0:
                self.snapshots()
            if number % 25 == 24:
                self.switch("flaky", on=number % 50 == 49)
        return self

    def early_refusal(self, slot: str) -> None:
        """A request that was refused before it was admitted."""
        request, session = self.ids.next(), f"s{self.random.randrange(20)}"
        self.write(
            REQUESTS,
            session,
            request,
            RequestRefused(key=KeyId("k"), code="route_unknown", status=404, route="nope"),
            slot=slot,
            tenant=self.random.choice(TENANTS),
            request=request,
            session=session,
        )

    def request(self, slot: str, candidates: int, number: int) -> None:
        """One admitted request with its decision, attempts, settlement and end."""
        tenant = self.random.choice(TENANTS)
        request, session = self.ids.next(), f"{tenant}-{self.random.randrange(6)}"
        context = {"tenant": tenant, "request": request, "session": session}
        tokens_in = self.random.randrange(50, 20_000)

        def put(data: Any) -> None:
            self.write(REQUESTS, session, request, data, slot=slot, **context)

        put(
            RequestAdmitted(
                key=KeyId("k"),
                route="code",
                dialect="openai",
                endpoint="/v1/chat/completions",
                stream=number % 2 == 0,
                session_source="x-tidegate-session",
                body_bytes=4 * tokens_in,
                input_tokens=tokens_in,
                max_output_tokens=None if number % 3 else 4_096,
            )
        )
        decision = self.decision(context, candidates, tokens_in, refuse=number % 19 == 7)
        put(decision)
        for verdict in decision.candidates:
            if verdict.uses:
                self.write(
                    SIGNALS,
                    verdict.pool,
                    verdict.pool,
                    DemandSeen(
                        decision=decision.decision,
                        pool=verdict.pool,
                        windows=verdict.uses,
                        alternative_nanousd=None if number % 4 else 900_000,
                        chosen=verdict.rank == 0,
                    ),
                    slot=slot,
                    **context,
                )
        if decision.chosen is None:
            put(RequestRefused(key=KeyId("k"), code="no_candidate", status=503, route="code"))
            return
        ladder = [
            c
            for c in sorted(decision.candidates, key=lambda c: -1 if c.rank is None else c.rank)
            if c.rank is not None
        ]
        failing = number % 7 == 3 and len(ladder) > 1
        attempts = [self.attempt(slot, context, ladder[0], 0, tokens_in, fails=failing, number=number)]
        if failing:
            attempts.append(self.attempt(slot, context, ladder[1], 1, tokens_in, fails=False, number=number))
        costs = [cost for _, cost in attempts]
        put(
            RequestFinished(
                key=KeyId("k"),
                route="code",
                outcome="cancelled" if number % 13 == 4 else "completed",
                status=200,
                attempts=len(attempts),
                decision=decision.decision,
                target=attempts[-1][0],
                duration_ns=self.random.randrange(1, 90) * S,
                ttft_ns=300_000_000,
                cost_nanousd=None if None in costs else sum(cost or 0 for cost in costs),
                overhead_ns=400_000,
            )
        )

    def decision(
        self, context: dict[str, str], candidates: int, tokens_in: int, *, refuse: bool
    ) -> DecisionMade:
        """A plan over the targets, in a random order of prices."""
        names = [
            list(TARGETS)[n % len(TARGETS)] + ("" if n < len(TARGETS) else f"-{n}") for n in range(candidates)
        ]
        order = self.random.sample(range(candidates), candidates)
        verdicts = []
        for index, name in enumerate(names):
            pool = PoolId(TARGETS.get(name, name))
            admitted = not refuse and (name != "flaky" or order[index] != 0)
            cash = 0 if pool == "plan" else tokens_in * 3_000 + 150_000
            uses = (WindowUse(WindowId("5h"), 1_800_000_000 * S, tokens_in),) if pool == "plan" else ()
            verdicts.append((order[index], admitted, TargetId(name), pool, cash, uses))
        ranks = {name: rank for rank, name in enumerate(v[2] for v in sorted(verdicts) if v[1])}
        return DecisionMade(
            decision=DecisionId(self.ids.next()),
            ask=Ask(
                request=context["request"],
                tenant=context["tenant"],
                key="k",
                route="code",
                dialect="openai",
                session=context["session"],
                input_tokens=tokens_in,
            ),
            now_ns=self.clock.wall_ns(),
            seed=self.random.getrandbits(64),
            config=ROUTING.digest(),
            code="0.1.0",
            decide_version=1,
            strategy="cheapest",
            took_ns=41_000,
            chosen=next((name for name, rank in ranks.items() if rank == 0), None),
            candidates=tuple(
                CandidateVerdict(
                    target=name,
                    pool=pool,
                    target_version=self._versions.get(target_subject(name)),
                    pool_version=self._versions.get(pool_subject(pool)),
                    local=LocalView(in_flight=2),
                    reason=None if admitted else "disabled",
                    rank=ranks.get(name),
                    price=PriceParts(cash=cash, quota=7, total=cash + 7) if admitted else None,
                    expected_output_tokens=10 if admitted else None,
                    expected_cached_tokens=0 if admitted else None,
                    p_exhaust=0.25 if uses else None,
                    uses=uses if admitted else (),
                )
                for _, admitted, name, pool, cash, uses in verdicts
            ),
        )

    def attempt(
        self,
        slot: str,
        context: dict[str, str],
        verdict: CandidateVerdict,
        index: int,
        tokens_in: int,
        *,
        fails: bool,
        number: int,
    ) -> tuple[TargetId, int | None]:
        """One upstream call, settled; what it cost."""
        attempt, target, pool = AttemptId(self.ids.next()), verdict.target, verdict.pool

        def put(data: Any, **extra: Any) -> None:
            self.write(SIGNALS, pool, attempt, data, slot=slot, **context, **extra)

        price = (
            None if number % 23 == 11 else PRICE if pool != "plan" else ListPrice(input_uncached=0, output=0)
        )
        put(
            AttemptStarted(
                attempt=attempt,
                target=target,
                pool=pool,
                route="code",
                index=index,
                input_tokens=tokens_in,
                reserve_output_tokens=1_024,
                price=price,
                windows=verdict.uses,
            )
        )
        if number % 29 == 13 and not fails:
            return target, None  # still open
        cost: int | None = 0
        if fails:
            put(
                AttemptFailed(
                    attempt=attempt,
                    target=target,
                    pool=pool,
                    cause="unavailable",
                    phase="wait_headers",
                    rule="status_5xx",
                    status=503,
                    retry_after_ms=1_000,
                )
            )
            usage = UsageSettled(
                attempt=attempt,
                target=target,
                pool=pool,
                route="code",
                basis="none",
                outcome="failed",
                cost_nanousd=0,
                duration_ns=3_000_000,
            )
        else:
            put(
                FirstTokenSeen(
                    attempt=attempt,
                    target=target,
                    pool=pool,
                    ttft_ns=310_000_000 + number,
                    input_tokens=tokens_in,
                )
            )
            tokens = Tokens(
                input_uncached=tokens_in,
                cache_read=self.random.randrange(500),
                cache_write_5m=0,
                cache_write_1h=0,
                output=self.random.randrange(1, 900),
                reasoning=0,
            )
            cost = None if price is None else cost_nanousd(tokens, price)
            usage = UsageSettled(
                attempt=attempt,
                target=target,
                pool=pool,
                route="code",
                basis="estimated" if number % 11 == 2 else "reported",
                outcome="completed",
                tokens=tokens,
                cost_nanousd=cost,
                price=price,
                windows=verdict.uses,
                duration_ns=4 * S,
                ttft_ns=310_000_000 + number,
                input_estimate=tokens_in,
                model="m-1",
            )
        put(usage, event_id=settlement_id(attempt))
        self._aftermath(slot, context, usage, number)
        return target, cost

    def _aftermath(self, slot: str, context: dict[str, str], usage: UsageSettled, number: int) -> None:
        if number % 5 == 0:
            self.write(
                SIGNALS,
                usage.pool,
                usage.target,
                QuotaObserved(
                    target=usage.target,
                    pool=usage.pool,
                    scope="requests",
                    limit=100,
                    remaining=number % 100,
                    resets_at_ns=None,
                ),
                slot=slot,
                **context,
            )
        if usage.basis == "estimated" and number % 2 == 0:
            self.write(
                SIGNALS,
                usage.pool,
                usage.attempt,
                SettlementCorrected(
                    attempt=usage.attempt,
                    target=usage.target,
                    pool=usage.pool,
                    delta_nanousd=-1_234,
                    tokens=usage.tokens,
                    evidence="invoice",
                    windows=tuple(msgspec.structs.replace(use, units=-use.units) for use in usage.windows),
                ),
                slot="rec",
                tenant=context["tenant"],
                request=context["request"],
            )

    def snapshots(self) -> None:
        """A belief about every subject, and what it includes."""
        for name, pool in TARGETS.items():
            belief = TargetBelief(
                price_output=Belief(15e9, 1e3),
                ttft_ms=Belief(310.5, 2.25),
                success=Belief(0.99, 1e-4, prior=True),
            )
            self._snapshot(pool, target_subject(TargetId(name)), target=belief)
        window = WindowBelief(
            window=WindowId("5h"),
            period_start_ns=1_800_000_000 * S,
            resets_at_ns=1_800_018_000 * S,
            used=self.random.randrange(10_000),
            limit=1_000_000,
            uvi=0.8,
            status="ok",
            p_exhaust=0.125,
            shadow_nanousd=0.5,
        )
        self._snapshot("plan", pool_subject(PoolId("plan")), pool=PoolBelief(windows=(window,)))
        self.write(
            SNAPSHOTS,
            "plan",
            "applied",
            Applied(topic=SIGNALS.name, partition=partition_of("plan"), position=1, marks={}),
            slot="est",
        )

    def _snapshot(self, home: str, subject: str, **belief: Any) -> None:
        version = self._versions[subject] = self._versions.get(subject, 0) + 1
        self.write(
            SNAPSHOTS,
            home,
            subject,
            RateSnapshot(
                subject=subject,
                version=version,
                at_ns=self.clock.wall_ns(),
                config=ROUTING.digest(),
                evidence=version,
                **belief,
            ),
            slot="est",
        )

    def switch(self, target: str, *, on: bool) -> None:
        """Flip a kill-switch."""
        act = TargetEnabled if on else TargetDisabled
        self.write(CONTROL, target, target, act(target=TargetId(target), actor="op"), slot="ctl")

    def close_source(self, slot: str) -> None:
        """Write SourceClosed to every partition the source touched."""
        source = self.sources[slot]
        touched = {(e.topic, e.partition_key) for e in self.events if e.draft.source == source}
        one_key = {(topic.name, partition_of(key)): (topic, key) for topic, key in touched}
        last = self._seq[slot]
        for topic, key in one_key.values():
            self._seq[slot] = last  # the closing record has one seq in every partition
            self.write(topic, key, source, SourceClosed(last_seq=last), slot=slot)


async def append(log: EventLog, records: Iterable[Outgoing]) -> None:
    """Append in order; runs of one writing role go together."""
    run: list[Outgoing] = []
    for record in records:
        if run and BY_NAME[run[-1].topic].role != BY_NAME[record.topic].role:
            await log.append(run)
            run = []
        run.append(record)
    if run:
        await log.append(run)
