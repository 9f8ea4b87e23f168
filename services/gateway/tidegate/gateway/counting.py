"""`/v1/messages/count_tokens`: one free call of the best target that has it; else an estimate, marked as one."""

import orjson

from tidegate.events.decision import CandidateVerdict, DecisionMade, by_rank
from tidegate.gateway import headers
from tidegate.gateway.attempt import Attempt, Tools, parse_json
from tidegate.gateway.job import Job
from tidegate.gateway.outbound.exchange import UpstreamExchange
from tidegate.gateway.outbound.faults import UpstreamError
from tidegate.gateway.settlements import Ending
from tidegate.gateway.taxonomy import Failure

ESTIMATED = b"x-tidegate-estimated: input_tokens\r\n"
_JSON = b"content-type: application/json\r\n"
_MAX_BYTES = 64 * 1024


async def serve(tools: Tools, job: Job, decision: DecisionMade) -> None:
    """Answer with a count. What a provider refuses here says nothing of its answers: no evidence, no failover.

    Raises Cancelled, GatewayError.
    """
    verdict = _counter(job, decision)
    counted = None if verdict is None else await _ask(tools, job, verdict)
    if counted is None:
        estimate = orjson.dumps({"input_tokens": job.ask.input_tokens})
        job.answer(_JSON + ESTIMATED + headers.request_id_line(job.dialect, job.request), estimate)
    else:
        job.answer(_JSON + counted[0], counted[1])


def _counter(job: Job, decision: DecisionMade) -> CandidateVerdict | None:
    """The best admitted target that counts tokens itself."""
    for verdict in by_rank(decision.candidates):
        target = job.serving.targets[verdict.target]
        if job.endpoint.path in target.prepared and target.config.counts_tokens:
            return verdict
    return None


async def _ask(tools: Tools, job: Job, verdict: CandidateVerdict) -> tuple[bytes, bytes] | None:
    attempt = Attempt(tools, job, verdict, job.attempts, is_free=True)
    job.attempts += 1
    job.target = verdict.target
    try:
        upstream = await attempt.open()
        if isinstance(upstream, Failure):
            return None
        with upstream:
            body = await _read(attempt, upstream)
            count = None if body is None else (parse_json(body) or {}).get("input_tokens")
            usable = type(count) is int and 200 <= upstream.status < 300
            ending = Ending(outcome="completed" if usable else "failed", billed=False, evidence=False)
            await attempt.wait_settled(attempt.settle(ending))
            return (attempt.answer_lines(upstream), body) if usable and body is not None else None
    finally:
        attempt.close()


async def _read(attempt: Attempt, upstream: UpstreamExchange) -> bytes | None:
    """The answer's body; None when it broke or is none of this kind."""
    upstream.first_token_seen()
    body = b""
    try:
        while data := await attempt.read(upstream):
            body += data
            if len(body) > _MAX_BYTES:
                upstream.cancel()
                return None
    except UpstreamError:
        return None
    return body
