"""What each fault does to the plan of an answer."""

import gzip
import zlib
from collections.abc import Callable, Iterator

from tidegate.simulator.actions import Action, Body, Close, End, Head, Raw, Reset
from tidegate.simulator.faults import Fault
from tidegate.simulator.framing import LAST_CHUNK, render_body, render_head
from tidegate.simulator.plan import JSON_TYPE, STREAM_TYPE, Job, Step, plain, worked
from tidegate.simulator.refusal import Refusal
from tidegate.simulator.seeded import noise
from tidegate.simulator.shape_catalogue import SHAPES

_GZIP = (b"content-encoding", b"gzip")
_GZIP_WINDOW_BITS = 31
_HTML = b"<html><body><h1>Bad Gateway</h1></body></html>"


def steps(job: Job) -> Iterator[Step]:
    """The plan of a job, with its fault at work."""
    fault = job.fault
    if fault is None or fault.kind in SHAPES:
        return plain(job)
    if fault.kind.isdigit():
        return _status(job, fault)
    return _MAKERS[fault.kind](job, fault)


def refusal(fault: Fault, status: int) -> Refusal:
    """The error a fault asks for, in words of its own where it gives them."""
    return Refusal(
        status,
        fault.text("message") or f"Simulated error {status}.",
        code=fault.text("code") or None,
        kind=fault.text("type") or None,
    )


def _status(job: Job, fault: Fault) -> Iterator[Step]:
    status = int(fault.kind)
    headers = list(job.headers)
    for param, name in (("retry_after", b"retry-after"), ("retry_after_ms", b"retry-after-ms")):
        if fault.text(param):
            headers.append((name, fault.text(param).encode("latin-1", "replace")))
    html = fault.text("body") == "html"
    body = _HTML if html else job.wire.error(refusal(fault, status), job.request_id)
    headers.append((b"content-type", b"text/html") if html else JSON_TYPE)
    yield Step("head", job.timing.header_s, Head(status, headers, len(body)), 0, "refused", accrues=False)
    yield Step("content", 0.0, Body(body), 0)
    yield Step("end", 0.0, End(), 0)


def _header_stall(job: Job, fault: Fault) -> Iterator[Step]:
    yield Step("open", fault.number("seconds") / job.speed, None, 0, accrues=False)
    yield from plain(job)


def _first_token_stall(job: Job, fault: Fault) -> Iterator[Step]:
    return _stalled(job, fault, 0)


def _mid_stream_stall(job: Job, fault: Fault) -> Iterator[Step]:
    return _stalled(job, fault, int(fault.number("after_tokens")))


def _stalled(job: Job, fault: Fault, after_tokens: int) -> Iterator[Step]:
    """Silence before the first content with `after_tokens` tokens before it; none if there is none."""
    pending = True
    produced = 0
    for step in plain(job):
        if pending and step.stage == "content" and produced >= after_tokens:
            pending = False
            yield from _silence(job, fault, produced)
        produced = step.produced
        yield step


def _silence(job: Job, fault: Fault, produced: int) -> Iterator[Step]:
    left_s = fault.number("seconds") / job.speed
    ping_s = fault.number("ping_s") / job.speed
    while job.stream and 0 < ping_s < left_s:
        yield Step("open", ping_s, Body(job.wire.keep_alive()), produced)
        left_s -= ping_s
    yield Step("open", left_s, None, produced)


def _until(job: Job, after_tokens: float) -> Iterator[Step]:
    """A stream up to the first content with `after_tokens` tokens before it, and never its terminal event."""
    produced = 0
    for step in plain(job):
        if step.stage == "terminal" or (step.stage == "content" and produced >= after_tokens):
            return
        produced = step.produced
        yield step


def _cut(job: Job, fault: Fault) -> Iterator[Step]:
    produced = job.answer.tokens.output
    if job.stream:
        for step in _until(job, fault.number("after_tokens")):
            produced = step.produced
            yield step
    else:
        for step in plain(job):
            if isinstance(step.action, Body):
                yield step._replace(action=_half(step.action), outcome="cut")
                break
            yield step
    yield Step("end", 0.0, Close(), produced, "cut")


def _half(action: Action | None) -> Body:
    data = action.data if isinstance(action, Body) else b""
    return Body(data[: len(data) // 2])


def _reset(job: Job, fault: Fault) -> Iterator[Step]:
    """Byte-exact: everything before the chosen byte is sent, then the connection is reset."""
    wire = fault.text("byte") != ""
    left = int(fault.number("byte" if wire else "body_byte"))
    chunked = False
    for step in plain(job):
        if isinstance(step.action, Head):
            chunked = step.action.length is None
        data = _sent(step.action, wire=wire, chunked=chunked)
        partial = data[:left]
        if len(data) > left:
            action = (Raw(partial) if wire else Body(partial)) if partial else None
            yield step._replace(action=action, outcome="cut")
            break
        left -= len(data)
        if isinstance(step.action, End):
            yield step._replace(action=Raw(data) if data else None)
        else:
            yield step._replace(action=Raw(data)) if wire else step
    yield Step("end", 0.0, Reset(), 0)


def _sent(action: Action | None, *, wire: bool, chunked: bool) -> bytes:
    """The bytes of an action that count: all of them on the wire, else those of the body."""
    if isinstance(action, Body):
        return render_body(action.data, chunked=wire and chunked)
    if wire and isinstance(action, Head):
        return render_head(action)
    return LAST_CHUNK if wire and chunked and isinstance(action, End) else b""


def _malformed_event(job: Job, fault: Fault) -> Iterator[Step]:
    """Breaks an event in place by taking away its last brace; of a whole body, the last brace as well."""
    pending = True
    produced = 0
    for step in plain(job):
        if isinstance(step.action, Body) and pending and step.stage == "content":
            if not job.stream:
                yield step._replace(action=Body(step.action.data[:-1] + b","))
                continue
            if produced >= fault.number("after_tokens"):
                pending = False
                yield step._replace(action=Body(step.action.data.removesuffix(b"}\n\n") + b"\n\n"))
                continue
        produced = step.produced
        yield step


def _missing_terminal(job: Job, _: Fault) -> Iterator[Step]:
    for step in plain(job):
        yield step._replace(action=None) if step.stage == "terminal" else step


def _truncated_json(job: Job, _: Fault) -> Iterator[Step]:
    return _truncated_stream(job) if job.stream else _truncated_whole(job)


def _truncated_stream(job: Job) -> Iterator[Step]:
    produced = 0
    for step in plain(job):
        middle = step.stage == "content" and 2 * step.produced >= job.answer.tokens.output
        if middle or step.stage == "terminal":
            yield step._replace(action=_half(step.action), outcome="cut")
            produced = step.produced
            break
        yield step
    yield Step("end", 0.0, End(), produced)


def _truncated_whole(job: Job) -> Iterator[Step]:
    planned = list(plain(job))
    half = _half(next(step.action for step in planned if isinstance(step.action, Body)))
    for step in planned:
        if isinstance(step.action, Head):
            yield step._replace(action=step.action._replace(length=len(half.data)))
        elif isinstance(step.action, Body):
            yield step._replace(action=half, outcome="cut")
        else:
            yield step


def _billed_no_bytes(job: Job, _: Fault) -> Iterator[Step]:
    yield from worked(job)
    yield Step("end", 0.0, Close(), job.answer.tokens.output, "lost")


def _close_no_bytes(job: Job, _: Fault) -> Iterator[Step]:
    yield Step("end", job.timing.header_s, Close(), 0, "failed", accrues=False)


def _error_200(job: Job, fault: Fault) -> Iterator[Step]:
    error = refusal(fault, int(fault.number("status")))
    after_tokens = fault.number("after_tokens")
    if job.stream and after_tokens > 0:
        produced = 0
        for step in _until(job, after_tokens):
            produced = step.produced
            yield step
        event = Body(job.wire.error_event(error, job.request_id))
        yield Step("close", 0.0, event, produced, "cut")
    elif job.stream:
        head = Head(200, [STREAM_TYPE, *job.headers], None)
        yield Step("head", job.timing.header_s, head, 0, "failed", accrues=False)
        yield Step("close", 0.0, Body(job.wire.error_event(error, job.request_id)), 0)
    else:
        body = job.wire.error(error, job.request_id)
        head = Head(200, [JSON_TYPE, *job.headers], len(body))
        yield Step("head", job.timing.header_s, head, 0, "failed", accrues=False)
        yield Step("content", 0.0, Body(body), 0)
    yield Step("end", 0.0, End(), 0)


def _wrong_model(job: Job, fault: Fault) -> Iterator[Step]:
    return plain(job._replace(answer=job.answer._replace(model=fault.text("model"))))


def _hidden_usage(job: Job, _: Fault) -> Iterator[Step]:
    return plain(job._replace(answer=job.answer._replace(show_usage=False)))


def _slow_drip(job: Job, fault: Fault) -> Iterator[Step]:
    size = max(int(fault.number("bytes")), 1)
    interval_s = fault.number("interval_ms") / 1000 / job.speed
    for step in plain(job):
        if not isinstance(step.action, Body):
            yield step
            continue
        data = step.action.data
        last = (len(data) - 1) // size * size
        for start in range(0, last + 1, size):
            yield step._replace(
                wait_s=interval_s if start else step.wait_s,
                action=Body(data[start : start + size]),
                outcome=step.outcome if start == last else None,
            )


def _compressed(job: Job, _: Fault) -> Iterator[Step]:
    if not job.stream:
        yield from plain(job, lambda body: gzip.compress(body, mtime=0), [_GZIP])
        return
    packer = zlib.compressobj(wbits=_GZIP_WINDOW_BITS)
    for step in plain(job, lambda data: packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH), [_GZIP]):
        if isinstance(step.action, End):
            yield Step("end", 0.0, Body(packer.flush()), step.produced)
        yield step


def _garbage(job: Job, fault: Fault) -> Iterator[Step]:
    data = noise(job.seed, job.request_id, int(fault.number("bytes")))
    yield Step("head", job.timing.header_s, Raw(data), 0, "failed", accrues=False)
    yield Step("end", 0.0, Close(), 0)


def _garbage_body(job: Job, fault: Fault) -> Iterator[Step]:
    data = noise(job.seed, job.request_id, int(fault.number("bytes")))
    head = Head(200, [STREAM_TYPE if job.stream else JSON_TYPE, *job.headers], len(data))
    yield Step("head", job.timing.header_s, head, 0, "failed", accrues=False)
    yield Step("content", 0.0, Body(data), 0)
    yield Step("end", 0.0, End(), 0)


_MAKERS: dict[str, Callable[[Job, Fault], Iterator[Step]]] = {
    "header_stall": _header_stall,
    "first_token_stall": _first_token_stall,
    "mid_stream_stall": _mid_stream_stall,
    "cut": _cut,
    "rst": _reset,
    "malformed_event": _malformed_event,
    "missing_terminal": _missing_terminal,
    "truncated_json": _truncated_json,
    "billed_no_bytes": _billed_no_bytes,
    "close_no_bytes": _close_no_bytes,
    "error_200": _error_200,
    "wrong_model": _wrong_model,
    "hidden_usage": _hidden_usage,
    "slow_drip": _slow_drip,
    "compressed": _compressed,
    "garbage": _garbage,
    "garbage_body": _garbage_body,
}
