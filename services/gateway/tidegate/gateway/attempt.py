"""One upstream call: started in the journal before dialing, settled exactly once however it ends."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import msgspec
import orjson

from tidegate.events.clock import Clock
from tidegate.events.config import Deadlines, GatewaySettings
from tidegate.events.decision import CandidateVerdict
from tidegate.events.errors import JournalUnwritable
from tidegate.events.ids import IdSource
from tidegate.events.journal.journal import Journal
from tidegate.events.journal.receipt import Receipt
from tidegate.events.money import FREE
from tidegate.events.signals import AttemptFailed, AttemptStarted, Outcome
from tidegate.events.topics import SIGNALS
from tidegate.events.types import AttemptId, Dialect
from tidegate.gateway import headers, mending, rate_limits, splice, taxonomy, told_quota
from tidegate.gateway.crossings import Crossed
from tidegate.gateway.dialects import exact_numbers, seals
from tidegate.gateway.dialects.history import Trust
from tidegate.gateway.endpoints import PATHS
from tidegate.gateway.errors import GatewayError
from tidegate.gateway.job import Job
from tidegate.gateway.origins import Origins
from tidegate.gateway.outbound.exchange import UpstreamExchange
from tidegate.gateway.outbound.faults import ConnectionStale, PoolExhausted, TotalTimeout, UpstreamError
from tidegate.gateway.patience import is_explained
from tidegate.gateway.ports import Planner
from tidegate.gateway.serving import ServedTarget
from tidegate.gateway.settlements import Ending, settle
from tidegate.gateway.taxonomy import Failure
from tidegate.gateway.upstream import Upstream

MAX_ERROR_BODY_BYTES = 256 * 1024
QUOTA_NOTED_EVERY_NS = 1_000_000_000
_CLIENT_ERROR, _TOO_MANY = 400, 429


class Tools(Protocol):
    """What every attempt uses of its worker."""

    journal: Journal
    planner: Planner
    upstream: Upstream
    clock: Clock
    ids: IdSource
    origins: Origins
    settings: GatewaySettings


class Cancelled(Exception):
    """The client is gone; the attempt was settled as such."""


class Attempt:
    """The life of one upstream call."""

    __slots__ = (
        "_is_sent",
        "_settled",
        "_started_ns",
        "crossed",
        "dialect",
        "failure",
        "job",
        "meanwhile",
        "started",
        "target",
        "tools",
        "ttft_ns",
    )

    def __init__(
        self, tools: Tools, job: Job, verdict: CandidateVerdict, index: int, *, is_free: bool = False
    ) -> None:
        """`is_free`: the call costs neither money nor quota. Raises Cancelled when nobody waits any more."""
        if job.gone is not None:
            raise Cancelled
        self.tools = tools
        self.job = job
        self.target: ServedTarget = job.serving.targets[verdict.target]
        self.dialect: Dialect = job.dialect
        """What is spoken with the upstream."""
        self.crossed: Crossed | None = _crossed(tools, job, self.target)
        if self.crossed is not None:
            self.dialect = self.crossed.upstream
        now_ns = tools.clock.wall_ns()
        left = verdict.local
        self.started = AttemptStarted(
            attempt=AttemptId(tools.ids.next()),
            target=verdict.target,
            pool=verdict.pool,
            route=job.ask.route,
            index=index,
            input_tokens=job.ask.input_tokens,
            stored_files=job.stored_files,
            reserve_output_tokens=self.target.reserve_tokens(job.ask.max_output_tokens),
            price=FREE if is_free else self.target.price(now_ns),
            windows=() if is_free else verdict.uses,
            prefix_tokens=left.session_cached_tokens,
            prefix_age_ns=None if left.session_at_ns is None else max(now_ns - left.session_at_ns, 0),
            service_tier=job.tier if self.crossed is None else self.crossed.service_tier,
        )
        self.ttft_ns: int | None = None
        self.failure: Failure | None = None
        self.meanwhile: Callable[[], object] | None = None
        """What to do while the answer is awaited."""
        self._started_ns = tools.clock.mono_ns()
        self._is_sent = False
        self._settled = False

    async def open(self) -> UpstreamExchange | Failure:
        """Commit the start, then dial, send the request in the target's dialect and wait for the response head.

        Returns the exchange, or the failure after settling it. Raises Cancelled when the client left,
        GatewayError when the journal cannot take the start or the chain's deadline passed.
        """
        job, tools = self.job, self.tools
        task = job.exchange.task
        job.cancel_action = None if task is None else task.cancel
        try:
            receipt = tools.journal.start(self.target.partition, self.started, job.context)
            # Before anything awaits: the next decision must already know what this one has taken.
            tools.planner.attempt_started(self.started, receipt.seq)
            await tools.journal.wait_committed(receipt)
            upstream = await self._send()
            self._note_limits(upstream)
            return upstream
        except JournalUnwritable as error:
            self._settled = True  # it never began
            tools.planner.attempt_undone(self.started)
            raise GatewayError("journal_unwritable", "The gateway cannot record requests now.") from error
        except UpstreamError as error:
            return self.fault(error)
        except asyncio.CancelledError:
            if job.gone is None:
                raise
            self.settle(Ending(outcome=self.outcome_of_leaving(), billed=self._is_sent, evidence=False))
            raise Cancelled from None
        finally:
            job.cancel_action = None

    async def _send(self) -> UpstreamExchange:
        job, clock, crossed = self.job, self.tools.clock, self.crossed
        asked_ns = clock.mono_ns()
        path = job.endpoint.path if crossed is None else PATHS[crossed.upstream]
        around = job.around_model if crossed is None else crossed.around_model
        prepared, lines = job.caller.call_of(self.target, self.dialect, path)
        try:
            return await self.tools.upstream.send(
                prepared,
                splice.filled(around, self.target.model_json),
                b"%b: %b\r\n%b" % (headers.ATTEMPT, self.started.attempt.encode(), lines),
                self._deadlines(),
                max(0.001, job.remaining_s()),
                self._sent,
            )
        finally:
            job.waited_ns += clock.mono_ns() - asked_ns

    def _sent(self) -> None:
        """From here on the provider bills its answer, whether anybody waits for it or not."""
        job = self.job
        self._is_sent = True
        job.reads_on = not job.endpoint.counts and self.target.read_on[not job.ask.stream]
        if self.meanwhile is not None:
            self.meanwhile()

    def _deadlines(self) -> Deadlines:
        """An answer without a stream is sent when it is finished: its head may take as long as all of it."""
        job, target = self.job, self.target
        is_whole = job.endpoint.writes and not job.ask.stream
        return target.whole_deadlines if is_whole else target.config.deadlines

    def _note_limits(self, upstream: UpstreamExchange) -> None:
        """Record what the provider says of its limits, at most once a second per target and at each 429."""
        target, now_ns = self.target, self.tools.clock.mono_ns()
        if now_ns - target.quota_noted_ns < QUOTA_NOTED_EVERY_NS and upstream.status != _TOO_MANY:
            return
        target.quota_noted_ns = now_ns
        wall_ns, served = self.tools.clock.wall_ns(), upstream.status < _CLIENT_ERROR
        for limit in rate_limits.limits_of(upstream.headers, wall_ns):
            window = target.measured.get(limit.scope)
            weight = target.config.quota_weight
            event = told_quota.observed(limit, window, self.started, wall_ns, weight, served=served)
            self.tools.journal.record(SIGNALS, target.partition, self.started.target, event, self.job.context)

    async def read(self, upstream: UpstreamExchange) -> bytes:
        """The next bytes of the answer. Raises UpstreamError; a vanished client cancels the exchange."""
        job, clock = self.job, self.tools.clock
        data = upstream.read_nowait()
        if data:
            return data
        asked_ns = clock.mono_ns()
        if job.gone is not None and not job.reads_on:
            upstream.cancel()
        job.cancel_action = upstream.cancel
        try:
            return await upstream.read()
        finally:
            job.cancel_action = None
            job.waited_ns += clock.mono_ns() - asked_ns

    def fault(self, error: UpstreamError, ending: Ending | None = None) -> Failure:
        """Settle after a broken call; raises Cancelled when it broke because the client left."""
        if self.job.gone is not None:
            self.settle(
                ending
                or Ending(
                    outcome=self.outcome_of_leaving(), billed=error.request_bytes_written, evidence=False
                )
            )
            raise Cancelled from error
        if isinstance(error, TotalTimeout):
            self.settle(
                ending or Ending(outcome="failed", billed=error.request_bytes_written, evidence=False)
            )
            raise GatewayError("deadline_exceeded", "The request's deadline passed.") from error
        failure = Failure(
            cause="unavailable" if error.timed_out else "transport",
            phase=error.phase,
            rule=error.code,
            message=error.what,
        )
        ending = ending or Ending(outcome="failed", billed=error.request_bytes_written)
        evidence = not self._is_ours(error)
        self.settle(ending if evidence else msgspec.structs.replace(ending, evidence=False))
        self.failed(failure, evidence=evidence)
        return failure

    def _is_ours(self, error: UpstreamError) -> bool:
        """True where our own limits, our kept connections or the size of this request explain the fault: it says
        nothing of the target."""
        if isinstance(error, PoolExhausted | ConnectionStale):
            return True
        started = self.started
        thinking_tokens = started.reserve_output_tokens if self.job.ask.reasoning else 0
        return is_explained(error, self.target.config.deadlines, started.input_tokens, thinking_tokens)

    async def refused(self, upstream: UpstreamExchange) -> Failure:
        """An error status: read its body (bounded), classify, settle as unbilled."""
        body = await self._error_body(upstream)
        now_ns, job = self.tools.clock.wall_ns(), self.job
        job.refused_lines = headers.response_lines(
            upstream.headers, job.dialect, job.request, now_ns, hints=False
        )
        failure = taxonomy.classify_answer(
            upstream.status,
            headers.as_text(upstream.headers),
            headers.decoded(upstream.headers, body, MAX_ERROR_BODY_BYTES),
            now_ns,
            conceal=self.target.conceal,
        )
        self.settle(Ending(outcome="failed", billed=False))
        self.failed(failure)
        return failure

    async def _error_body(self, upstream: UpstreamExchange) -> bytes:
        upstream.first_token_seen()
        parts: list[bytes] = []
        size = 0
        try:
            while size < MAX_ERROR_BODY_BYTES and (data := await self.read(upstream)):
                parts.append(data)
                size += len(data)
        except UpstreamError:
            if self.job.gone is not None:
                self.settle(Ending(outcome=self.outcome_of_leaving(), billed=False, evidence=False))
                raise Cancelled from None
        upstream.cancel()
        return b"".join(parts)

    def broken(self, rule: str, message: str, ending: Ending) -> Failure:
        """An answer that cannot be used though the call itself went well."""
        failure = Failure(cause="transport", phase="body", rule=rule, message=message)
        self.settle(ending)
        self.failed(failure)
        return failure

    def error_in_answer(self, data: Any, ending: Ending) -> Failure:
        """A typed error inside a 200: classify by content."""
        failure = taxonomy.classify_event(data, self.tools.clock.wall_ns(), conceal=self.target.conceal)
        self.settle(ending)
        self.failed(failure)
        return failure

    def failed(self, failure: Failure, *, evidence: bool = True) -> None:
        """Record the failure, and whether it says something of the target; tell the planner."""
        event = AttemptFailed(
            attempt=self.started.attempt,
            target=self.started.target,
            pool=self.started.pool,
            cause=failure.cause,
            phase=failure.phase,
            rule=failure.rule,
            status=failure.status,
            retry_after_ms=failure.retry_after_ms,
            reset_at_ns=failure.reset_at_ns,
            confidence=failure.confidence,
            evidence=evidence,
        )
        receipt = self.tools.journal.record(
            SIGNALS, self.target.partition, self.started.attempt, event, self.job.context
        )
        self.tools.planner.attempt_failed(event, receipt.seq)
        self.failure = failure

    def settle(self, ending: Ending) -> Receipt:
        """The one settlement of this attempt. Raises GatewayError when the journal refuses it."""
        job, now_ns = self.job, self.tools.clock.mono_ns()
        price = self.target.list_price(self.tools.clock.wall_ns())
        event = settle(
            self.started,
            ending,
            self.target,
            price,
            duration_ns=now_ns - self._started_ns,
            ttft_ns=self.ttft_ns,
        )
        try:
            receipt = self.tools.journal.settle(self.target.partition, event, job.context)
        except JournalUnwritable as error:
            raise GatewayError("journal_unwritable", "The gateway cannot record requests now.") from error
        self._settled = True
        if event.cost_nanousd is None or job.cost_nanousd is None:
            job.cost_nanousd = None
        else:
            job.cost_nanousd += event.cost_nanousd
        self.tools.planner.attempt_settled(event, receipt.seq, job.ask.session)
        return receipt

    async def wait_settled(self, receipt: Receipt) -> None:
        """Until the settlement may be told. Raises GatewayError: then no success marker may leave; Cancelled where
        the answer was read on for its bill alone."""
        try:
            await self.tools.journal.wait_settled(receipt)
        except JournalUnwritable as error:
            raise GatewayError("journal_unwritable", "The gateway cannot record requests now.") from error
        if self.job.gone is not None and self.job.reads_on:
            raise Cancelled

    @property
    def output_limit(self) -> int | None:
        """As many output tokens as the answer can have; None: no bound."""
        return self.target.output_limit(self.job.ask.max_output_tokens)

    def answer_lines(self, upstream: UpstreamExchange) -> bytes:
        """Header lines of the answer that the client may see, in its dialect."""
        job = self.job
        return headers.response_lines(upstream.headers, job.dialect, job.request, self.tools.clock.wall_ns())

    def learner(self) -> Callable[[bytes], None] | None:
        """Takes what the client gets of an answer: what its provider proves there, no other one may be asked to
        check. None where there is no other one."""
        job = self.job
        if job.dialect == "openai-embeddings" or not job.serving.has_several_origins:
            return None
        return partial(self.tools.origins.learn, job.dialect, self.target.origin)

    def mark_first_token(self) -> None:
        """Content began: time to first token, of this attempt and of the request."""
        now_ns = self.tools.clock.mono_ns()
        self.ttft_ns = now_ns - self._started_ns
        self.job.ttft_ns = now_ns - self.job.started_ns

    def let_go(self) -> None:
        """Content has left: no other attempt follows, so the request is held no longer."""
        self.crossed = None
        self.job.let_go()

    def close(self) -> None:
        """Whatever happened: no attempt stays open behind a request that ended."""
        self.job.reads_on = False
        if not self._settled:
            self.settle(Ending(outcome=self.outcome_of_leaving(), billed=self._is_sent, evidence=False))

    def outcome_of_leaving(self) -> Outcome:
        """How an attempt ends whose client left."""
        return "client_slow" if self.job.gone == "client_slow" else "cancelled"


def _crossed(tools: Tools, job: Job, target: ServedTarget) -> Crossed | None:
    """The request as this target must be told it, None where it takes the client's own bytes."""
    trust = None
    if job.dialect != "openai-embeddings" and not job.endpoint.counts:
        trust = tools.origins.trust(job.dialect, job.ask.session, target.origin, job.raw)
        if trust is None and seals.may_be_in(job.raw):
            trust = Trust(target.origin)  # something was carried here for a provider of another dialect
    if trust is not None:
        return job.cross().for_target(target.speech, trust) or job.cross().for_target(target.speech)
    return None if job.crossings is None else job.crossings.for_target(target.speech)


def distrusts(tools: Tools, job: Job, target: ServedTarget, failure: Failure) -> bool:
    """Was an attempt refused for what another provider had signed, and would the next one be told without it?"""
    if job.dialect == "openai-embeddings" or not mending.is_about_history(failure):
        return False
    session, differ = job.ask.session, job.cross().differ
    return tools.origins.distrust(job.dialect, session, target.origin, job.raw, differ)


def parse_json(body: bytes) -> dict[str, Any] | None:
    """The JSON object of an answer, None when it is none."""
    try:
        parsed = exact_numbers.parsed(body)
    except orjson.JSONDecodeError:
        return None
    return parsed if isinstance(parsed, dict) else None
