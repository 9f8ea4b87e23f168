"""Answers as a stream: head held until content, body relayed at once, tail held until the money is safe."""

from typing import Any

from tidegate.events.signals import FirstTokenSeen
from tidegate.events.topics import SIGNALS
from tidegate.gateway import headers, taxonomy, usage
from tidegate.gateway.answers import produced_tokens
from tidegate.gateway.attempt import Attempt, parse_json
from tidegate.gateway.crossings import context_for
from tidegate.gateway.dialects.stream import TranslatedPhases
from tidegate.gateway.errors import GatewayError
from tidegate.gateway.outbound.exchange import UpstreamExchange
from tidegate.gateway.outbound.faults import UpstreamError
from tidegate.gateway.phases import Step, StreamPhases
from tidegate.gateway.said import produced_tokens as produced_in
from tidegate.gateway.settlements import Ending
from tidegate.gateway.taxonomy import Failure

_NOTHING = Step()
_WHOLE_BYTES = 1024 * 1024
"""How much is read of an answer that is no stream, for what it says of its usage."""


class StreamRelay:
    """One upstream stream on its way to the client."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._committed = False
        self._is_noted = False
        self._learn = attempt.learner()
        self._upstream: UpstreamExchange
        self._phases: StreamPhases | TranslatedPhases
        self._own_lines: bytes

    def prepare(self) -> None:
        """Make ready what does not depend on the answer, while it is awaited: its first token waits for less then."""
        job = self._attempt.job
        self._phases = _phases_of(self._attempt)
        self._own_lines = job.head_lines()
        job.arm_keepalive(self._attempt.tools.settings.silent_keepalive_s)

    async def serve(self, upstream: UpstreamExchange) -> Failure | None:
        """Relay; None when the client has its end, else the failure, settled, before any content left.

        To be prepared before. Raises Cancelled, GatewayError (also after content: then it is told in band).
        """
        self._upstream = upstream
        attempt = self._attempt
        content_type = headers.value_of(self._upstream.headers, b"content-type") or b""
        if not content_type.startswith(b"text/event-stream"):
            return await self._not_a_stream()
        if headers.is_coded(self._upstream.headers):
            self._upstream.cancel()
            return attempt.broken(
                "stream_encoded", "compressed though identity was asked", Ending(outcome="failed")
            )
        while True:
            try:
                data = await attempt.read(self._upstream)
            except UpstreamError as error:
                return self._broken(error)
            step, at_end = self._phases.feed(data) if data else self._phases.end(), not data
            data = b""  # what the client does not take is held once, where it waits for the socket
            done, failure = await self._take(step, at_end=at_end)
            if done:
                return failure
            step = _NOTHING
            if attempt.job.exchange.write_paused:
                await self._wait_for_client()
                attempt.job.cancel_action = None

    async def _take(self, step: Step, *, at_end: bool) -> tuple[bool, Failure | None]:
        attempt, exchange = self._attempt, self._attempt.job.exchange
        if step.error is not None:
            if step.forward and self._committed:  # content that came in the same read is the client's
                exchange.write(step.forward)
            return True, self._error_event(step)
        if step.committed and not self._committed:
            self._commit()
        if step.terminal is not None:
            await self._finish(step)
            return True, None
        if step.forward and self._committed:
            exchange.write(step.forward)
            if not self._is_noted:
                self._note_first_token()
            if self._learn is not None:
                self._learn(step.forward)
        if at_end:
            return True, self._truncated("stream_unterminated", "stream ended without its terminal event")
        if step.fault is not None:
            self._upstream.cancel()
            return True, self._truncated("stream_malformed", step.fault)
        attempt.job.cancel_action = None
        return False, None

    def _commit(self) -> None:
        attempt, job = self._attempt, self._attempt.job
        self._committed = True
        self._upstream.first_token_seen()
        attempt.mark_first_token()
        if isinstance(self._phases, TranslatedPhases):
            job.tell_in_band = self._phases.error_event
        job.begin_stream(attempt.answer_lines(self._upstream), self._own_lines)

    def _note_first_token(self) -> None:
        """Record when it came, and let go of the request: after it was handed on, so that it waits for neither."""
        self._is_noted = True
        attempt = self._attempt
        attempt.let_go()
        attempt.tools.journal.record(
            SIGNALS,
            attempt.target.partition,
            attempt.started.attempt,
            FirstTokenSeen(
                attempt=attempt.started.attempt,
                target=attempt.started.target,
                pool=attempt.started.pool,
                ttft_ns=attempt.ttft_ns or 0,
                input_tokens=attempt.started.input_tokens,
            ),
            attempt.job.context,
        )

    async def _finish(self, step: Step) -> None:
        attempt, job = self._attempt, self._attempt.job
        if not self._committed:
            self._commit()
        if step.forward:
            job.exchange.write(step.forward)
        if not self._is_noted:
            self._note_first_token()
        if self._learn is not None:
            self._learn(step.forward)
        receipt = attempt.settle(self._ending("completed"))
        await attempt.wait_settled(receipt)
        job.exchange.finish(step.terminal or b"")
        # What follows the terminal event is dropped; a connection that is not done with it is closed.
        if not self._upstream.is_complete:
            self._upstream.cancel()

    async def _wait_for_client(self) -> None:
        job = self._attempt.job
        self._upstream.pause()
        asked_ns = job.clock.mono_ns()
        await job.exchange.wait_writable()
        job.waited_ns += job.clock.mono_ns() - asked_ns
        if job.gone is None or job.reads_on:
            self._upstream.resume()
        else:
            self._upstream.cancel()

    def _ending(self, outcome: str) -> Ending:
        phases = self._phases
        return Ending(
            outcome="completed" if outcome == "completed" else "truncated",
            tokens=phases.tokens,
            told_tier=phases.told_tier,
            produced_tokens=self._produced() if self._committed else None,
            model=phases.model,
        )

    def _produced(self) -> int:
        """Estimate of the output so far, for when the provider does not tell it."""
        phases = self._phases
        return produced_in(phases.content_events, phases.said_bytes, self._attempt.output_limit)

    def _broken(self, error: UpstreamError) -> Failure | None:
        attempt = self._attempt
        if attempt.job.gone is not None:
            ending = Ending(
                outcome=attempt.outcome_of_leaving(),
                tokens=self._phases.tokens,
                told_tier=self._phases.told_tier,
                produced_tokens=self._produced(),
                evidence=False,
            )
        else:
            ending = self._ending("truncated")
        failure = attempt.fault(error, ending)
        return failure if not self._committed else self._tell(failure)

    def _truncated(self, rule: str, message: str) -> Failure:
        failure = self._attempt.broken(rule, message, self._ending("truncated"))
        return failure if not self._committed else self._tell(failure)

    def _error_event(self, step: Step) -> Failure:
        self._upstream.cancel()
        failure = self._attempt.error_in_answer(step.error, self._ending("truncated"))
        return failure if not self._committed else self._tell(failure)

    def _tell(self, failure: Failure) -> Failure:
        # Content has left: another upstream's words can not follow. The client gets one typed error event.
        raise GatewayError(
            "stream_truncated", f"The upstream stream broke: {(failure.message or failure.rule).rstrip('.')}."
        )

    async def _not_a_stream(self) -> Failure:
        self._upstream.first_token_seen()
        parts: list[bytes] = []
        try:
            while sum(map(len, parts)) < _WHOLE_BYTES and (data := await self._attempt.read(self._upstream)):
                parts.append(data)
        except UpstreamError as error:
            return self._attempt.fault(error)
        self._upstream.cancel()
        return self._judge(parse_json(b"".join(parts)))

    def _judge(self, answer: dict[str, Any] | None) -> Failure:
        """An error, or an answer that is no stream: useless to the client, but what it says it used is billed."""
        attempt = self._attempt
        if answer is None:
            return attempt.broken("stream_expected", "answer is no event stream", Ending(outcome="failed"))
        dialect = attempt.dialect
        tally = usage.tally_of(dialect, answer, attempt.target.usage_rules[dialect])
        produced = (
            None if taxonomy.error_in(answer) else produced_tokens(dialect, answer, attempt.output_limit)
        )
        ending = Ending(
            outcome="failed",
            tokens=tally.tokens(),
            told_tier=tally.told_tier,
            produced_tokens=produced,
        )
        if taxonomy.error_in(answer):
            return attempt.error_in_answer(answer, ending)
        return attempt.broken("stream_expected", "answer is no event stream", ending)


def _phases_of(attempt: Attempt) -> StreamPhases | TranslatedPhases:
    crossed, rules = attempt.crossed, attempt.target.usage_rules[attempt.dialect]
    if crossed is None or not crossed.rewrites_stream:
        return StreamPhases(
            attempt.dialect, client_wants_usage=attempt.job.body.wants_usage_chunk, usage_rules=rules
        )
    context = context_for(crossed, rules)
    return TranslatedPhases(crossed.upstream, crossed.client, context, quirks=crossed.quirks)
