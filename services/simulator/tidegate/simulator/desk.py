"""The provider's other pages: models, token counting, and `/_sim` (health, log, bill, state, faults)."""

from collections.abc import Callable
from urllib.parse import parse_qs, unquote

import msgspec

from tidegate.simulator import anthropic_ask
from tidegate.simulator.actions import Action, End, Head, SimRequest
from tidegate.simulator.anthropic_wire import AnthropicWire
from tidegate.simulator.clock import Clock
from tidegate.simulator.config import FaultRule, Provider
from tidegate.simulator.faults import FaultUnknown, check
from tidegate.simulator.invoice import invoice, usage
from tidegate.simulator.plan import fixed
from tidegate.simulator.reception import Reception
from tidegate.simulator.refusal import Refusal
from tidegate.simulator.request_log import RequestLog
from tidegate.simulator.tokens import count

Page = Callable[[SimRequest], object]

USAGE_PREFIX = "/_sim/usage/"


class Desk:
    """Answers everything that is not a completion, at once and without a bill."""

    def __init__(self, provider: Provider, reception: Reception, log: RequestLog, clock: Clock) -> None:
        self._provider = provider
        self._reception = reception
        self._log = log
        self._clock = clock
        self._opened_s = clock.now_s()
        self._pages: dict[tuple[str, str], Page] = {
            ("HEAD", "/"): lambda _: None,
            ("GET", "/_sim/healthz"): lambda _: {"status": "ok", "provider": provider.id},
            ("GET", "/_sim/log"): self._records,
            ("GET", "/_sim/requests"): lambda _: {"requests": list(log.requests)},
            ("GET", "/_sim/invoice"): self._invoice,
            ("GET", "/_sim/state"): self._state,
            ("PUT", "/_sim/faults"): self._set_faults,
            ("GET", "/v1/models"): self._list_models,
            ("POST", "/v1/messages/count_tokens"): self._count_tokens,
        }

    def answer(self, request: SimRequest) -> list[Action]:
        """The page, or a 404; errors in Anthropic's shape below `/v1/messages`, else in a plain one."""
        if request.method == "HEAD":
            return [Head(200 if ("HEAD", request.path) in self._pages else 404, [], 0), End()]
        try:
            return fixed(200, [], msgspec.json.encode(self._page(request)))
        except Refusal as refusal:
            if request.path.startswith("/v1/messages"):
                return fixed(refusal.status, [], AnthropicWire().error(refusal, "desk"))
            body = {
                "error": {"message": refusal.message, "type": "invalid_request_error", "code": refusal.code}
            }
            return fixed(refusal.status, [], msgspec.json.encode(body))

    def _page(self, request: SimRequest) -> object:
        if request.method == "GET" and request.path.startswith(USAGE_PREFIX):
            attempt = unquote(request.path.removeprefix(USAGE_PREFIX))
            return usage(attempt, self._log.of_attempt(attempt))
        page = self._pages.get((request.method, request.path))
        if page is None:
            raise Refusal(404, f"Invalid URL ({request.method} {request.path})", code="unknown_url")
        if request.path.startswith("/v1/"):
            self._reception.check_key(request)
        return page(request)

    def _records(self, request: SimRequest) -> object:
        return {"records": self._log.lines[_span(request)]}

    def _invoice(self, request: SimRequest) -> object:
        bill = invoice(self._provider, self._log.lines, self._reception.account.balance_nanousd)
        bill["lines"] = bill["lines"][_span(request)]
        bill["since_s"] = self._opened_s  # the log is in memory: what came before is on no bill
        return bill

    def _state(self, _: SimRequest) -> object:
        now_s = self._clock.now_s()
        account, cache = self._reception.account, self._reception.cache
        return {
            "provider": self._provider.id,
            "now_s": now_s,
            "in_flight": account.in_flight,
            "open": self._log.open_attempts(),
            "balance_nanousd": account.balance_nanousd,
            "cached_blocks": None if cache is None else len(cache),
            "windows": [{**state._asdict(), "remaining": state.remaining} for state in account.states(now_s)],
        }

    def _set_faults(self, request: SimRequest) -> object:
        try:
            rules = msgspec.json.decode(request.body, type=tuple[FaultRule, ...])
            for rule in rules:
                check(rule.kind, rule.params)
        except (msgspec.MsgspecError, FaultUnknown) as error:
            raise Refusal(400, str(error)) from error
        self._reception.reschedule(rules)
        return {"rules": len(rules)}

    def _list_models(self, _: SimRequest) -> object:
        models = [
            {"id": model.name, "object": "model", "created": 0, "owned_by": self._provider.id}
            for model in self._provider.models
        ]
        return {"object": "list", "data": models, "has_more": False}

    def _count_tokens(self, request: SimRequest) -> object:
        if "anthropic" not in self._provider.dialects:
            raise Refusal(404, "This provider does not speak the messages dialect.")
        ask = anthropic_ask.read(request.body, counting=True)
        return {"input_tokens": count(len(ask.prompt))}


def _span(request: SimRequest) -> slice:
    """`from` and `limit` of the query as a slice of lines."""
    query = parse_qs(request.query)
    try:
        start = int(query.get("from", ["0"])[0])
        limit = int(query["limit"][0]) if "limit" in query else None
    except ValueError as error:
        raise Refusal(400, "from and limit must be whole numbers") from error
    return slice(start, None if limit is None else start + limit)
