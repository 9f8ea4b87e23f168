"""The plan of an answer: actions in order, each with a wait before it and what is billed by then."""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from tidegate.simulator.actions import Action, Body, End, Head, Headers
from tidegate.simulator.answer import Answer
from tidegate.simulator.faults import Fault
from tidegate.simulator.wire import Wire

Stage = Literal["head", "open", "content", "close", "terminal", "end"]
Outcome = Literal["completed", "cut", "lost", "failed", "refused"]
Encoder = Callable[[bytes], bytes]

STREAM_TYPE = (b"content-type", b"text/event-stream; charset=utf-8")
JSON_TYPE = (b"content-type", b"application/json")


class Step(NamedTuple):
    """Wait, then act. `outcome` closes the bill before the action; `accrues` bills who leaves in the wait.

    `produced` is the output generated once the wait is over; a client that leaves during the wait pays for
    the tokens that came about until then.
    """

    stage: Stage
    wait_s: float
    action: Action | None
    produced: int
    outcome: Outcome | None = None
    accrues: bool = True


class Timing(NamedTuple):
    """Seconds to the head and to the first token, and seconds per output token (all divided by the speed)."""

    header_s: float
    ttft_s: float
    token_s: float


class Job(NamedTuple):
    """Everything a plan is made of."""

    wire: Wire
    answer: Answer
    stream: bool
    event_tokens: int
    timing: Timing
    fault: Fault | None
    headers: Headers
    request_id: str
    seed: int
    speed: float


def plain(job: Job, encode: Encoder | None = None, extra: Headers | None = None) -> Iterator[Step]:
    """The answer without a fault; `encode` compresses what `extra` headers announce."""
    if job.stream:
        return _streamed(job, encode, extra or [])
    return _whole(job, encode, extra or [])


def fixed(status: int, headers: Headers, body: bytes) -> list[Action]:
    """Head, JSON body and end."""
    return [Head(status, [JSON_TYPE, *headers], len(body)), Body(body), End()]


def worked(job: Job) -> Iterator[Step]:
    """The whole answer is made and nothing sent: time to the first token, then the others."""
    total = job.answer.tokens.output
    if job.timing.ttft_s:
        yield Step("open", job.timing.ttft_s, None, min(total, 1))
    if job.timing.token_s and total > 1:
        yield Step("open", (total - 1) * job.timing.token_s, None, total)


def _whole(job: Job, encode: Encoder | None, extra: Headers) -> Iterator[Step]:
    total = job.answer.tokens.output
    body = job.wire.whole(job.answer)
    if encode is not None:
        body = encode(body)
    head = Head(200, [JSON_TYPE, *extra, *job.headers], len(body))
    yield from worked(job)
    yield Step("head", 0.0, head, total)
    yield Step("content", 0.0, Body(body), total, "completed")
    yield Step("end", 0.0, End(), total)


def _streamed(job: Job, encode: Encoder | None, extra: Headers) -> Iterator[Step]:
    timing = job.timing
    header_s = min(timing.header_s, timing.ttft_s)
    yield Step("head", header_s, Head(200, [STREAM_TYPE, *extra, *job.headers], None), 0)
    produced = 0
    first_s = timing.ttft_s - header_s
    for event in job.wire.events(job.answer, job.event_tokens):
        # An event that was moved to a later place does not take tokens back.
        by_now = max(event.produced, produced)
        wait_s = (by_now - produced) * timing.token_s
        if by_now and not produced:
            # The first token comes at the TTFT, and so takes no time of its own.
            wait_s += first_s - timing.token_s
        produced = by_now
        data = event.data if encode is None else encode(event.data)
        outcome: Outcome | None = "completed" if event.stage == "terminal" else None
        yield Step(event.stage, wait_s, Body(data), produced, outcome)
    yield Step("end", 0.0, End(), produced)
