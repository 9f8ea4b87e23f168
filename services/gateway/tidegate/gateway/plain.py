"""Answers without a stream: read whole and parsed before the first byte leaves."""

from typing import Any

import msgspec

from tidegate.gateway import headers, taxonomy, usage
from tidegate.gateway.answers import lacks, produced_tokens
from tidegate.gateway.attempt import Attempt, parse_json
from tidegate.gateway.crossings import crossed_back
from tidegate.gateway.dialects.faults import AnswerMalformed
from tidegate.gateway.outbound.exchange import UpstreamExchange
from tidegate.gateway.outbound.faults import UpstreamError
from tidegate.gateway.settlements import Ending
from tidegate.gateway.taxonomy import Failure

MAX_ANSWER_BYTES = 32 * 1024 * 1024
_NOTHING = msgspec.Raw()
_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_JSON = b"content-type: application/json\r\n"


async def serve_plain(attempt: Attempt, upstream: UpstreamExchange) -> Failure | None:
    """Relay one whole answer; None when the client has it, else the settled failure.

    Raises Cancelled, GatewayError.
    """
    upstream.first_token_seen()  # there is no first token to wait for: idle and total deadlines hold
    try:
        body = await _read_whole(attempt, upstream)
    except UpstreamError as error:
        return attempt.fault(error)
    if body is None:
        return attempt.broken("answer_too_large", "answer over 32 MiB", Ending(outcome="failed"))
    if headers.is_coded(upstream.headers):  # though identity was asked
        body = headers.decoded_whole(upstream.headers, body, MAX_ANSWER_BYTES)
        if body is None:
            return attempt.broken("answer_encoded", "compressed, and not readable", Ending(outcome="failed"))
    dialect = attempt.dialect
    answer = _vectors_aside(body) if dialect == "openai-embeddings" else parse_json(body)
    if answer is None:
        return attempt.broken("answer_not_json", "answer is no JSON object", Ending(outcome="failed"))
    rules = attempt.target.usage_rules[dialect]
    tally = usage.tally_of(dialect, answer, rules)
    tokens = tally.tokens()
    produced = None if tokens.output is not None else produced_tokens(dialect, answer, attempt.output_limit)
    lacking = lacks(dialect, answer)
    if lacking is not None:
        unused = Ending(outcome="failed", tokens=tokens, told_tier=tally.told_tier)
        return _no_answer(attempt, answer, lacking, unused)
    model = answer.get("model")
    ending = Ending(
        outcome="completed",
        tokens=tokens,
        told_tier=tally.told_tier,
        produced_tokens=produced,
        model=model if isinstance(model, str) else None,
    )
    if attempt.crossed is not None:
        try:
            body = crossed_back(attempt.crossed, body, rules)
        except AnswerMalformed as error:
            ending = msgspec.structs.replace(ending, outcome="failed")
            return attempt.broken("answer_malformed", str(error), ending)
    receipt = attempt.settle(ending)
    await attempt.wait_settled(receipt)
    if (learn := attempt.learner()) is not None:
        learn(body)
    attempt.job.answer(_JSON + attempt.answer_lines(upstream), body)
    return None


async def _read_whole(attempt: Attempt, upstream: UpstreamExchange) -> bytes | None:
    first = await attempt.read(upstream)
    if upstream.is_complete:
        return first
    parts, size = [first], len(first)
    while data := await attempt.read(upstream):
        parts.append(data)
        size += len(data)
        if size > MAX_ANSWER_BYTES:
            upstream.cancel()
            return None
    return b"".join(parts)


def _no_answer(attempt: Attempt, answer: dict[str, Any], lacking: str, ending: Ending) -> Failure:
    if taxonomy.error_in(answer):
        return attempt.error_in_answer(answer, ending)
    return attempt.broken("answer_malformed", f"a success without {lacking}", ending)


def _vectors_aside(body: bytes) -> dict[str, Any] | None:
    """The answer with its vectors left out of their list: they need no reading here and may fill megabytes."""
    try:
        fields = _raw_fields.decode(body)
        vectors = memoryview(fields.pop("data", _NOTHING))[:1].tobytes() == b"["
        answer = {name: msgspec.json.decode(raw) for name, raw in fields.items()}
        return {**answer, "data": []} if vectors else answer
    except (msgspec.DecodeError, RecursionError):
        return None
