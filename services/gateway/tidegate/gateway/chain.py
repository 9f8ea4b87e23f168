"""The plan, carried out: attempts in rank order under one deadline, failover only before content."""

import asyncio

from tidegate.events import causes
from tidegate.events.decision import CandidateVerdict, DecisionMade, by_rank
from tidegate.events.types import Cause
from tidegate.gateway.attempt import Attempt, Cancelled, Tools, distrusts
from tidegate.gateway.errors import Code, GatewayError
from tidegate.gateway.job import Job
from tidegate.gateway.outbound.faults import ConnectionStale, PoolExhausted
from tidegate.gateway.plain import serve_plain
from tidegate.gateway.streams import StreamRelay
from tidegate.gateway.taxonomy import Failure

MAX_HOLD_NS = 2_000_000_000
"""Longest wait for the same target when nothing else is left: a hint further ahead ends the request."""

_CODES: dict[Cause, Code] = {
    "quota_exhausted": "upstream_quota_exhausted",
    "rate_limited": "upstream_rate_limited",
    "unavailable": "upstream_unavailable",
    "transport": "upstream_unreachable",
    "auth": "upstream_auth",
    "invalid_request": "request_incompatible",
    "denied": "policy_denied",
    "execution": "upstream_unknown",
    "unknown": "upstream_unknown",
}
_PASSED_STATUS = frozenset({400, 404, 413, 422})


class Chain:
    """Tries the ranked candidates until one has served the client."""

    def __init__(self, tools: Tools, job: Job, decision: DecisionMade) -> None:
        self._tools = tools
        self._job = job
        self._order = by_rank(decision.candidates)
        self._closed_pools: set[str] = set()
        self._max_attempts = job.route.max_attempts
        self._tried: dict[str, int] = {}

    async def run(self) -> None:
        """Serve the client. Raises GatewayError when every try failed, Cancelled when the client left."""
        job = self._job
        order = self._order
        last: Failure | None = None
        for position, verdict in enumerate(order):
            if job.attempts >= self._max_attempts:
                break
            if not self._is_open(verdict):
                continue
            last = await self._try(verdict)
            if last is not None and last.rule == ConnectionStale.code and self._may_go_on(verdict):
                last = await self._try(verdict)
            if last is not None and self._can_be_mended(last, verdict):
                last = await self._try(verdict)
            if last is None:
                return
            if job.ask.stream:
                job.arm_keepalive(
                    self._tools.settings.silent_keepalive_s
                )  # also a try that was never sent took time
            action = self._act_on(last, verdict)
            if action.action == "park":
                break
            if action.action == "retry_same" and not self._may_go_on(*order[position + 1 :]):
                last = await self._again(verdict, action.retry_at_ns, last)
                if last is None:
                    return
        if last is None and job.crossings is not None and job.crossings.refusal is not None:
            raise GatewayError(
                "request_incompatible",
                f"No target of this route can be told this request: {job.crossings.refusal}.",
                param=job.crossings.refusal.field,
            )
        raise _error_of(last, self._tools.clock.wall_ns())

    def _is_open(self, verdict: CandidateVerdict) -> bool:
        """True while nothing that was learnt since the decision keeps the candidate out.

        The first try follows its decision at once; later ones find that others took places and quota meanwhile.
        """
        job = self._job
        if job.crossings is not None and not job.crossings.can_tell(
            job.serving.targets[verdict.target].speech
        ):
            return False
        if job.attempts == 0:
            return True
        return (
            verdict.pool not in self._closed_pools
            and self._is_affordable(verdict)
            and self._tools.planner.may_still_try(job.ask, verdict.target)
        )

    def _is_affordable(self, verdict: CandidateVerdict) -> bool:
        """True while what the request has cost and what a further try is expected to cost stay under the cap."""
        job, cap = self._job, self._job.route.max_cost_nanousd
        if cap is None:
            return True
        expected = 0 if verdict.price is None else verdict.price.cash
        return job.cost_nanousd is not None and job.cost_nanousd + expected <= cap

    def _can_be_mended(self, last: Failure, verdict: CandidateVerdict) -> bool:
        """True where the target refused only what another provider had signed. Told without it, it is asked again:
        the refusal takes no attempt from the route's."""
        target = self._job.serving.targets[verdict.target]
        if not distrusts(self._tools, self._job, target, last) or not self._is_open(verdict):
            return False
        self._max_attempts += 1
        return True

    def _may_go_on(self, *rest: CandidateVerdict) -> bool:
        return self._job.attempts < self._max_attempts and any(map(self._is_open, rest))

    async def _again(self, verdict: CandidateVerdict, at_ns: int | None, last: Failure) -> Failure | None:
        wait_ns = max(0, (at_ns or 0) - self._tools.clock.wall_ns())
        job = self._job
        if wait_ns > MAX_HOLD_NS or wait_ns / 1e9 > job.remaining_s() or job.attempts >= self._max_attempts:
            return last
        await self._hold(wait_ns / 1e9)
        return await self._try(verdict) if self._is_open(verdict) else last

    async def _hold(self, wait_s: float) -> None:
        """Wait; raises Cancelled when the client leaves meanwhile."""
        job = self._job
        task = job.exchange.task
        job.cancel_action = None if task is None else task.cancel
        asked_ns = job.clock.mono_ns()
        try:
            await asyncio.sleep(wait_s)
        except asyncio.CancelledError:
            if job.gone is None:
                raise
            raise Cancelled from None
        finally:
            job.cancel_action = None
            job.waited_ns += job.clock.mono_ns() - asked_ns

    def _act_on(self, failure: Failure, verdict: CandidateVerdict) -> causes.Consequence:
        self._tried[verdict.target] = self._tried.get(verdict.target, 0) + 1
        consequence = causes.consequence(
            failure.cause,
            now_ns=self._tools.clock.wall_ns(),
            repeats=self._tried[verdict.target] - 1,
            retry_after_ms=failure.retry_after_ms,
            reset_at_ns=failure.reset_at_ns,
            confidence=failure.confidence,
        )
        if consequence.operation == "pool_cooldown":
            self._closed_pools.add(verdict.pool)
        return consequence

    async def _try(self, verdict: CandidateVerdict) -> Failure | None:
        job = self._job
        attempt = Attempt(self._tools, job, verdict, job.attempts)
        job.attempts += 1
        job.target = verdict.target
        job.refused_lines = b""
        job.warnings = () if attempt.crossed is None else attempt.crossed.warnings
        relay = None
        if job.ask.stream:
            relay = StreamRelay(attempt)
            attempt.meanwhile = relay.prepare
        try:
            upstream = await attempt.open()
            if isinstance(upstream, Failure):
                return upstream
            with upstream:
                if not 200 <= upstream.status < 300:
                    return await attempt.refused(upstream)
                return await (serve_plain(attempt, upstream) if relay is None else relay.serve(upstream))
        finally:
            attempt.close()


def _error_of(failure: Failure | None, now_ns: int) -> GatewayError:
    if failure is None:
        return GatewayError("nothing_admitted", "No upstream could be tried.")
    if failure.rule == PoolExhausted.code:
        return GatewayError(
            "overloaded", f"The gateway has no connection free: {failure.message}.", retry_after_s=1
        )
    code = _CODES[failure.cause]
    retry_after_s = None
    if failure.cause in {"quota_exhausted", "rate_limited", "unavailable"}:
        # What the provider asks of its clients goes before what its limits let one work out.
        if failure.retry_after_ms is not None:
            retry_after_s = failure.retry_after_ms / 1_000
        elif failure.reset_at_ns is not None:
            retry_after_s = max(0.0, (failure.reset_at_ns - now_ns) / 1e9)
    status = failure.status if code == "request_incompatible" and failure.status in _PASSED_STATUS else None
    said = f" It said: {failure.message}" if failure.message else ""
    return GatewayError(
        code,
        f"Every upstream of this route failed; the last one: {failure.cause} ({failure.rule}).{said}",
        retry_after_s=retry_after_s,
        status=status,
    )
