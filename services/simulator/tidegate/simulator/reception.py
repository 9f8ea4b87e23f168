"""Takes a request in: key, body, fault, quota, cache; out comes a visit with a plan of its answer."""

import hashlib
from collections.abc import Iterator

from tidegate.simulator import fault_plans, prepare, sealing
from tidegate.simulator.account import Account
from tidegate.simulator.actions import Body, End, Head, Headers, SimRequest
from tidegate.simulator.answer import Answer
from tidegate.simulator.ask import Ask
from tidegate.simulator.cache import Lookup, PrefixCache
from tidegate.simulator.compose import Composer, Draft
from tidegate.simulator.config import FaultRule, Provider
from tidegate.simulator.faults import (
    FAULT_HEADER,
    SHAPE_HEADER,
    Fault,
    FaultUnknown,
    Schedule,
    known,
    parse,
)
from tidegate.simulator.invoice import Line
from tidegate.simulator.plan import JSON_TYPE, Job, Step
from tidegate.simulator.refusal import Refusal
from tidegate.simulator.reshaped import Reshaped, check_shape
from tidegate.simulator.seeded import digest
from tidegate.simulator.shape_catalogue import SHAPES
from tidegate.simulator.tariffs import served_tier
from tidegate.simulator.tokens import NO_TOKENS, TokenClasses, count
from tidegate.simulator.visit import Visit
from tidegate.simulator.wire import Wire

ATTEMPT_HEADER = b"x-tidegate-attempt-id"


class Reception:
    """The provider's front desk; `account` and `cache` are its state."""

    def __init__(self, provider: Provider, seed: int, speed: float, started_s: float) -> None:
        self._provider = provider
        self._seed = seed
        self._speed = speed
        self._started_s = started_s
        self._models = {model.name: model for model in provider.models}
        self._composer = Composer(seed, provider.scripts)
        self._schedule = Schedule(provider.faults, seed, started_s, speed)
        self.account = Account(provider, speed)
        self.cache = PrefixCache(provider.cache, speed) if provider.cache else None

    def reschedule(self, rules: tuple[FaultRule, ...]) -> None:
        """Replace the provider's own faults; their time still counts from the start."""
        self._schedule = Schedule(rules, self._seed, self._started_s, self._speed)

    def check_key(self, request: SimRequest) -> None:
        """Raise Refusal 401 unless the request carries the configured key, in either vendor's header."""
        wanted = self._provider.api_key
        if wanted is None:
            return
        bearer = request.header(b"authorization") or ""
        if wanted not in (bearer.removeprefix("Bearer "), request.header(b"x-api-key")):
            raise Refusal(401, "Incorrect API key provided.")

    def receive(self, wire: Wire, request: SimRequest, line: Line) -> Visit:
        """Fill the line and plan the answer; refusals become a plan, too."""
        try:
            return self._receive(wire, request, line)
        except Refusal as refusal:
            request_id = self._request_id(line)
            headers = self._headers(wire, line, request_id, 0)
            if refusal.retry_after is not None:
                headers.append((b"retry-after", refusal.retry_after.encode()))
            return Visit(line, _refused(wire, refusal, headers, request_id))

    def _receive(self, wire: Wire, request: SimRequest, line: Line) -> Visit:
        self.check_key(request)
        _check_version(wire, request)
        ask = wire.read(request.body)
        line.model, line.stream = ask.name, ask.stream
        fault = self._fault(request, ask, line)
        line.fault = fault.kind if fault else None
        shapes = self._shapes(request, wire, fault)
        if shapes:
            wire = Reshaped(wire, shapes)
        model = self._models.get(ask.name)
        if model is None:
            raise Refusal(404, f"The model `{ask.name}` does not exist or you do not have access to it.")
        line.service_tier = served_tier(ask.service_tier, model)
        self._check_habits(ask)
        self._check_history(ask)
        draft = self._composer.draft(request, ask, model, line.body_sha256)
        if fault is not None and known(fault.kind).bill == "nothing":
            job = self._job(wire, ask, draft, NO_TOKENS, fault, line)
            return Visit(line, fault_plans.steps(job))
        lookup = self._lookup(wire, ask, line.arrived_s)
        prepare.check_context(lookup.tokens, model)
        self.account.admit(model, line.arrived_s)
        job = self._job(wire, ask, draft, lookup.tokens, fault, line)
        if any(shape.kind == "zero_usage" for shape in shapes):
            job = job._replace(answer=job.answer._replace(tokens=NO_TOKENS))
        line.served_model = fault.text("model") if fault and fault.kind == "wrong_model" else ask.model
        return Visit(line, fault_plans.steps(job), job.answer.tokens, model, lookup)

    def _job(
        self,
        wire: Wire,
        ask: Ask,
        draft: Draft,
        tokens: TokenClasses,
        fault: Fault | None,
        line: Line,
    ) -> Job:
        request_id = self._request_id(line)
        answer = Answer(
            id=request_id,
            created_s=int(line.arrived_s),
            model=ask.model,
            tokens=tokens.with_answer(draft.output, draft.reasoning, _searches(draft)),
            parts=draft.parts,
            finish=draft.finish,
            show_usage=ask.show_usage,
            stop=next(iter(ask.stops), None) if draft.finish == "sequence" else None,
            logprobs=ask.logprobs,
            echo=ask.echo,
            hidden_seal=sealing.opaque(self._seed, request_id),
            service_tier=line.service_tier,
        )
        return Job(
            wire=wire,
            answer=answer,
            stream=ask.stream,
            event_tokens=self._provider.tokens_per_event,
            timing=prepare.timing(self._provider.latency, tokens, self._seed, line.ordinal, self._speed),
            fault=fault,
            headers=self._headers(wire, line, request_id, tokens.prompt),
            request_id=request_id,
            seed=self._seed,
            speed=self._speed,
        )

    def _check_habits(self, ask: Ask) -> None:
        """Raise Refusal 400 for fields and roles that this provider does not know."""
        for name in self._provider.refused_fields:
            if name in ask.fields:
                raise Refusal(400, f"Unrecognized request argument supplied: {name}", param=name)
        for role in self._provider.refused_roles:
            if role in ask.roles:
                raise Refusal(400, f"Role '{role}' is not supported by this model.", param="messages")

    def _check_history(self, ask: Ask) -> None:
        """Raise Refusal 400 for a conversation that no vendor would take, or with signatures of another."""
        if ask.talk.problem is not None:
            raise ask.talk.problem
        for seal in ask.talk.seals:
            if not seal.is_own(self._seed):
                raise seal.refusal

    def _fault(self, request: SimRequest, ask: Ask, line: Line) -> Fault | None:
        text = request.header(FAULT_HEADER) or ask.fault
        scheduled = self._schedule.pick(ask.name, line.ordinal, line.arrived_s)
        if not text:
            return scheduled
        try:
            return parse(text)
        except FaultUnknown as error:
            raise Refusal(400, str(error), code="sim_fault_unknown") from error

    def _shapes(self, request: SimRequest, wire: Wire, fault: Fault | None) -> list[Fault]:
        """The habits of the provider, then those that the request asks for. Raises Refusal 400."""
        try:
            own = [parse(text) for text in self._provider.shapes]
            asked = [parse(text) for text in (request.header(SHAPE_HEADER) or "").split(",") if text]
            asked += [fault] if fault is not None and fault.kind in SHAPES else []
            for shape in asked:
                check_shape(wire.dialect, shape)
        except FaultUnknown as error:
            raise Refusal(400, str(error), code="sim_fault_unknown") from error
        return [*own, *asked]

    def _lookup(self, wire: Wire, ask: Ask, now_s: float) -> Lookup:
        if ask.embeds is not None:
            return Lookup(TokenClasses(input_uncached=sum(embed.tokens for embed in ask.embeds)), ())
        if self.cache is None:
            return Lookup(TokenClasses(input_uncached=count(len(ask.prompt))), ())
        if wire.dialect == "anthropic":
            return self.cache.marked(ask.name, ask.prompt, ask.marks, now_s)
        return self.cache.automatic(ask.name, ask.prompt, now_s)

    def _headers(self, wire: Wire, line: Line, request_id: str, pending_tokens: int) -> Headers:
        states = self.account.states(line.arrived_s)
        headers = wire.headers(request_id, states, pending_tokens, line.arrived_s)
        if line.attempt is not None:
            headers.append((ATTEMPT_HEADER, line.attempt.encode("latin-1")))
        return headers

    def _request_id(self, line: Line) -> str:
        return digest(self._seed, f"id/{line.ordinal}", 12).hex()


def new_line(provider: str, wire: Wire, request: SimRequest, ordinal: int, now_s: float) -> Line:
    """The log line of a request that just arrived; names of headers are kept, never their values."""
    return Line(
        ordinal=ordinal,
        provider=provider,
        attempt=request.header(ATTEMPT_HEADER),
        dialect=wire.endpoint,
        model="",
        arrived_s=now_s,
        body_bytes=len(request.body),
        body_sha256=hashlib.sha256(request.body).hexdigest(),
        header_names=tuple(name.decode("latin-1") for name, _ in request.headers),
    )


def _searches(draft: Draft) -> int:
    return sum(part.kind == "search" for part in draft.parts)


def _check_version(wire: Wire, request: SimRequest) -> None:
    if wire.dialect == "anthropic" and request.header(b"anthropic-version") is None:
        raise Refusal(400, "anthropic-version: header is required")


def _refused(wire: Wire, refusal: Refusal, headers: Headers, request_id: str) -> Iterator[Step]:
    body = wire.error(refusal, request_id)
    head = Head(refusal.status, [JSON_TYPE, *headers], len(body))
    yield Step("head", 0.0, head, 0, "refused", accrues=False)
    yield Step("content", 0.0, Body(body), 0)
    yield Step("end", 0.0, End(), 0)
