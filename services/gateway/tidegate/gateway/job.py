"""One client request on its way: what is known of it, and what it has cost so far."""

import asyncio
from collections.abc import Callable

from tidegate.events.clock import Clock
from tidegate.events.config import Route
from tidegate.events.decision import Ask, DecisionMade
from tidegate.events.journal.receipt import Context
from tidegate.events.types import Dialect, TargetId
from tidegate.gateway import headers
from tidegate.gateway.asks import Body
from tidegate.gateway.caller import Caller
from tidegate.gateway.crossings import Crossings
from tidegate.gateway.endpoints import Endpoint
from tidegate.gateway.errors import GatewayError, error_event, render, request_id_line
from tidegate.gateway.exchange import Exchange, Reason
from tidegate.gateway.session import cache_key
from tidegate.gateway.splice import Around

_LEFT: frozenset[Reason] = frozenset({"client_gone", "client_fault"})
_PING = b'event: ping\ndata: {"type": "ping"}\n\n'
_COMMENT = b": keep-alive\n"
"""Without a blank line: older SDKs take one for the end of an event without data."""
_STREAM_TYPE = b"content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"


class Job:
    """State of one request between its body and its answer; lives on one event loop."""

    __slots__ = (
        "around_model",
        "ask",
        "attempts",
        "body",
        "caller",
        "cancel_action",
        "clock",
        "context",
        "cost_nanousd",
        "crossings",
        "decision",
        "dialect",
        "endpoint",
        "exchange",
        "gone",
        "keepalive",
        "partition",
        "principal",
        "raw",
        "reads_on",
        "refused_lines",
        "request",
        "route",
        "serving",
        "started_ns",
        "stored_files",
        "target",
        "tell_in_band",
        "tier",
        "ttft_ns",
        "waited_ns",
        "warnings",
    )

    def __init__(
        self,
        exchange: Exchange,
        caller: Caller,
        endpoint: Endpoint,
        request: str,
        clock: Clock,
    ) -> None:
        self.exchange = exchange
        self.serve_by(caller)
        self.endpoint = endpoint
        self.dialect: Dialect = endpoint.dialect
        self.request = request
        self.clock = clock
        self.started_ns = clock.mono_ns()
        self.waited_ns = 0
        self.attempts = 0
        self.cost_nanousd: int | None = 0
        self.ttft_ns: int | None = None
        self.decision: DecisionMade | None = None
        self.target: TargetId | None = None
        self.gone: Reason | None = None
        self.cancel_action: Callable[[], object] | None = None
        self.reads_on = False
        """Whether the answer is read to its end also for nobody: it is paid for, and only its end tells how much."""
        self.keepalive: asyncio.TimerHandle | None = None
        self.context = Context(tenant=caller.principal.tenant.id, request=request)
        self.crossings: Crossings | None = None
        """The request in other dialects, where a target of its route needs one."""
        self.warnings: tuple[str, ...] = ()
        """Fields of the client that the target of this attempt cannot be told."""
        self.tell_in_band: Callable[[GatewayError], bytes] | None = None
        """How a stream that is written event by event tells of a failure."""
        self.partition = 0
        self.stored_files = 0
        """Parts of the prompt whose size is a guess: files of the provider."""
        self.tier: str | None = None
        """The service tier that the client asks for, None as usual."""
        self.raw = b""
        self.refused_lines = b""
        """What the upstream that refused last said of its limits and its request id."""
        # Set in order by the front; reading one too early is a programming error.
        self.around_model: Around
        self.body: Body
        self.ask: Ask
        self.route: Route

    def serve_by(self, caller: Caller) -> None:
        """Take who asks, and with it the config that holds for this request."""
        self.caller = caller
        self.serving = caller.serving
        self.principal = caller.principal

    def cross(self) -> Crossings:
        """The request in other dialects. Raises GatewayError for a body that only one reader takes."""
        if self.crossings is None:
            assert self.dialect != "openai-embeddings"  # noqa: S101 - vectors have no other dialect
            seconds = self.clock.wall_ns() // 1_000_000_000
            session = None if self.context.session == self.request else self.context.session
            self.crossings = Crossings(
                self.dialect,
                self.raw,
                created_s=seconds,
                answer_id=self.request,
                cache_key=cache_key(self.body, session, self.caller.data_key),
            )
        return self.crossings

    def let_go(self) -> None:
        """Hold the request no longer, in any dialect: nothing can be tried with it any more."""
        self.raw, self.crossings = b"", None
        del self.body, self.around_model
        self.exchange.release_body()

    def on_gone(self, reason: Reason) -> None:
        """The cancel hook of the listener: stop whatever the request is waiting for."""
        self.gone = reason
        if self.reads_on and reason in _LEFT:
            self.exchange.on_cancel(self.on_gone)
            return
        action, self.cancel_action = self.cancel_action, None
        if action is not None:
            action()

    def remaining_s(self) -> float:
        """Seconds left of the chain's one deadline."""
        return self.route.deadline_s - (self.clock.mono_ns() - self.started_ns) / 1e9

    def head_lines(self, *, chosen: bool = True) -> bytes:
        """The gateway's own response headers."""
        decision = self.decision
        if decision is None:
            return request_id_line(self.request)
        ids = b"x-tidegate-request-id: %b\r\nx-tidegate-decision-id: %b\r\n" % (
            self.request.encode(),
            decision.decision.encode(),
        )
        if not chosen or self.target is None:
            return ids
        return b"%bx-tidegate-target: %b\r\nx-tidegate-attempts: %d\r\n%b" % (
            ids,
            self.target.encode(),
            self.attempts,
            self._warning_line() if self.warnings else b"",
        )

    def _warning_line(self) -> bytes:
        return b"x-tidegate-warnings: left out: %b\r\n" % ", ".join(self.warnings).encode()

    def begin_stream(self, upstream_lines: bytes, own_lines: bytes) -> None:
        """Start the 200 of a stream, unless a keep-alive did already."""
        self.stop_keepalive()
        if not self.exchange.started:
            self.exchange.start(200, _STREAM_TYPE + upstream_lines + own_lines)

    def arm_keepalive(self, after_s: float) -> None:
        """During silent reasoning, keep the client's connection warm; failover stays allowed."""
        if self.keepalive is None:
            self.keepalive = asyncio.get_running_loop().call_later(after_s, self._keep_alive, after_s)

    def _keep_alive(self, after_s: float) -> None:
        self.keepalive = None
        if self.exchange.gone is not None or self.exchange.answered:
            return
        if not self.exchange.started:
            self.exchange.start(200, _STREAM_TYPE + self.head_lines(chosen=False))
        self.exchange.write(_PING if self.dialect == "anthropic" else _COMMENT)
        self.arm_keepalive(after_s)

    def stop_keepalive(self) -> None:
        """No further keep-alive."""
        if self.keepalive is not None:
            self.keepalive.cancel()
            self.keepalive = None

    def answer(self, head: bytes, body: bytes, status: int = 200) -> None:
        """The whole answer of a request without stream."""
        self.exchange.respond(status, head + self.head_lines(), body)

    def fail(self, error: GatewayError) -> None:
        """Tell the client: as an HTTP answer, or as one error event when the stream has begun."""
        self.stop_keepalive()
        if self.exchange.gone is not None or self.exchange.answered:
            return
        if self.exchange.started:
            tell = self.tell_in_band
            self.exchange.finish(error_event(error, self.dialect) if tell is None else tell(error))
        else:
            rendered = render(error, self.dialect)
            said = self.refused_lines or headers.request_id_line(self.dialect, self.request)
            head = b"%b%b%b" % (rendered.head, said, self.head_lines())
            self.exchange.respond(rendered.status, head, rendered.body)
