"""One gateway worker: what every request shares, and the way of a request through it."""

import asyncio
from collections.abc import Mapping

from tidegate.events.clock import Clock
from tidegate.events.config import GatewaySettings, Routing
from tidegate.events.decision import Ask, DecisionMade
from tidegate.events.errors import JournalUnwritable
from tidegate.events.ids import IdSource
from tidegate.events.journal.journal import Journal
from tidegate.events.partition import partition_of
from tidegate.events.requests import RequestOutcome
from tidegate.events.types import Dialect, RouteName, TargetId
from tidegate.gateway import counting, headers, recorder, splice, tiers
from tidegate.gateway.asks import Body
from tidegate.gateway.attempt import Cancelled
from tidegate.gateway.bodies import parse_body
from tidegate.gateway.boundary import as_gateway_error, journal_unwritable
from tidegate.gateway.caller import Caller
from tidegate.gateway.chain import Chain
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.endpoints import Endpoint
from tidegate.gateway.errors import GatewayError, render, request_id_line
from tidegate.gateway.exchange import ClientGone, Exchange
from tidegate.gateway.job import Job
from tidegate.gateway.origins import Origins
from tidegate.gateway.ports import Planner
from tidegate.gateway.request_head import RequestHead
from tidegate.gateway.serving import Serving
from tidegate.gateway.session import Session, session_in_body
from tidegate.gateway.tally import Tally
from tidegate.gateway.upstream import Upstream


class Worker:
    """Serves requests of one process. Belongs to one event loop."""

    def __init__(
        self,
        *,
        journal: Journal,
        planner: Planner,
        upstream: Upstream,
        clock: Clock,
        ids: IdSource,
        settings: GatewaySettings,
        data_key: bytes,
    ) -> None:
        self.journal = journal
        self.planner = planner
        self.upstream = upstream
        self.clock = clock
        self.ids = ids
        self.tally = Tally()
        self.origins = Origins()
        self.settings = settings
        self.draining = False
        self._data_key = data_key
        self._serving: Serving | None = None

    def publish(self, routing: Routing, secrets: Mapping[str, str]) -> None:
        """Serve new requests by this config; running ones keep theirs. Raises TargetInvalid."""
        self._serving = Serving(routing, secrets, self.upstream)

    @property
    def serving(self) -> Serving:
        """The config in force. Raises GatewayError before the first one."""
        if self._serving is None:
            raise GatewayError("overloaded", "The gateway has no config yet.", retry_after_s=1)
        return self._serving

    def targets_without_price(self) -> int:
        """How many targets of the config in force have no price now."""
        return 0 if self._serving is None else self._serving.without_price(self.clock.wall_ns())

    def not_ready(self) -> str | None:
        """Why no traffic should be sent here, None when it may be."""
        if self.draining:
            return "draining"
        if self._serving is None:
            return "no config"
        return None if self.journal.refusing is None else "the journal takes no requests"

    def caller_of(self, head: RequestHead) -> Caller:
        """Who asks. Raises GatewayError; an unauthenticated request is only counted."""
        known = head.known
        if isinstance(known, Caller) and known.serving is self._serving:
            return known
        try:
            head.known = caller = Caller(self.serving, head, self._data_key)
        except GatewayError:
            self.tally.unauthenticated += 1
            raise
        return caller

    async def handle(self, exchange: Exchange, endpoint: Endpoint) -> None:
        """Serve one model request from head to last byte; every failure is told in the client's dialect."""
        request = self.ids.next()
        try:
            job = Job(exchange, self.caller_of(exchange.head), endpoint, request, self.clock)
        except GatewayError as error:
            rendered = render(error, endpoint.dialect)
            ids = request_id_line(request) + headers.request_id_line(endpoint.dialect, request)
            exchange.respond(rendered.status, rendered.head + ids, rendered.body)
            return
        exchange.on_disconnect(job.on_gone)
        admitted = False
        try:
            self._admit_load()
            self.tally.in_flight += 1
            admitted = True
            job.raw = await exchange.read_body()
            self._prepare(job)
        except ClientGone:
            pass
        except Exception as error:  # noqa: BLE001 - the boundary: every fault is told and recorded
            self._refuse_early(job, as_gateway_error(error, request))
        else:
            await self._serve(job)
        finally:
            self.tally.in_flight -= admitted

    def _prepare(self, job: Job) -> None:
        # The body may have taken long: from here to the last attempt, one config.
        if job.serving is not self._serving:
            job.serve_by(self.caller_of(job.exchange.head))
        job.body = body = _parsed(job)
        route = job.serving.routes.get(RouteName(body.model))
        if route is None:
            raise GatewayError("route_unknown", f"There is no route {body.model!r} here.")
        if not job.principal.may_use(route.name):
            raise GatewayError("route_forbidden", f"This key may not use the route {body.model!r}.")
        job.route = route
        job.around_model = _around_model(job)
        session = self._session(job)
        job.context.session = session.id
        others = job.serving.crossed[route.name, job.dialect]
        dialects: tuple[Wire, ...] = ()
        if (others or route.name in job.serving.quirky) and not job.endpoint.counts:
            dialects = self._cross(job, others)
        job.partition = partition_of(session.id)
        job.ask = _ask(job, session, dialects)
        recorder.admitted(self.journal, job, session.source)

    def _cross(self, job: Job, others: tuple[Wire, ...]) -> tuple[Wire, ...]:
        """The dialects in which targets that do not speak the client's own may be asked."""
        return () if job.dialect == "openai-embeddings" else job.cross().possible(others)

    def _admit_load(self) -> None:
        # Draining is no reason: until the listener closes, load balancers may not know yet and still send.
        if self.journal.refusing is not None:
            # Why is in the log only: it names folders of this machine.
            raise journal_unwritable()
        if self.tally.in_flight >= self.settings.max_in_flight:
            raise GatewayError("overloaded", "Too many requests are in flight.", retry_after_s=1)

    def _session(self, job: Job) -> Session:
        caller = job.caller
        return caller.session or session_in_body(job.body, job.request, caller.data_key)

    def _refuse_early(self, job: Job, error: GatewayError) -> None:
        self.tally.refused += 1
        route = job.route.name if hasattr(job, "route") else None
        tenant = job.principal.tenant.id
        try:
            recorder.refused_early(self.journal, tenant, job.request, job.principal.key.id, route, error)
        except JournalUnwritable:
            self.tally.unrecorded += 1
        job.fail(error)

    async def _serve(self, job: Job) -> None:
        outcome: RequestOutcome = "failed"
        told: GatewayError | None = None
        try:
            decision = self._decide(job)
            if decision.chosen is None and not job.endpoint.counts:
                self._refuse(job, decision)
                return
            await self._answer(job, decision)
            outcome = "completed"
        except Cancelled:
            outcome = "cancelled"
            if job.gone == "draining":  # the client is still there
                told = GatewayError("draining", "The gateway shuts down.", retry_after_s=1)
            elif job.gone == "client_slow":
                told = GatewayError("client_slow", "The client took no byte for too long.")
        except GatewayError as error:
            told = error
            outcome = "truncated" if error.code == "stream_truncated" else "failed"
        except asyncio.CancelledError:
            outcome = "cancelled"
            if job.gone is None:
                raise
        except Exception as error:  # noqa: BLE001 - the boundary: every fault is told and recorded
            told = as_gateway_error(error, job.request)
        finally:
            if job.decision is None:
                self._refuse_early(job, told or GatewayError("internal_error", "The gateway failed."))
            elif job.attempts or told is not None or outcome == "cancelled" or job.endpoint.counts:
                self._finish(job, job.decision, outcome, told)

    async def _answer(self, job: Job, decision: DecisionMade) -> None:
        if job.endpoint.counts:
            await counting.serve(self, job, decision)
            return
        await Chain(self, job, decision).run()

    def _decide(self, job: Job) -> DecisionMade:
        decision = job.decision = self.planner.plan(job.ask)
        # Counting tokens draws on no quota: it is no demand for any.
        demand = () if job.endpoint.counts else self.planner.demand(decision)
        recorder.decided(self.journal, job, decision, demand)
        return decision

    def _refuse(self, job: Job, decision: DecisionMade) -> None:
        self.tally.refused += 1
        error = _untold(job, decision) or self._nothing_admitted(decision)
        recorder.refused(self.journal, job, error)
        job.fail(error)

    def _nothing_admitted(self, decision: DecisionMade) -> GatewayError:
        reasons = ", ".join(f"{c.target}: {c.reason}" for c in decision.candidates)
        retry_s = None
        if decision.retry_at_ns is not None:
            retry_s = max(1.0, (decision.retry_at_ns - self.clock.wall_ns()) / 1e9)
        return GatewayError(
            "nothing_admitted", f"No upstream may serve this now ({reasons}).", retry_after_s=retry_s
        )

    def _finish(
        self, job: Job, decision: DecisionMade, outcome: RequestOutcome, told: GatewayError | None
    ) -> None:
        job.stop_keepalive()
        try:
            recorder.finished(self.journal, job, decision, outcome, told)
            self.journal.flush_if_alone()
        except JournalUnwritable:
            self.tally.unrecorded += 1
        if told is not None:
            job.fail(told)
        self.tally.finished(job, outcome)


def _untold(job: Job, decision: DecisionMade) -> GatewayError | None:
    """The field for which no target's dialect has words, where that alone is why nobody may serve."""
    refusal = None if job.crossings is None else job.crossings.refusal
    if refusal is None or any(candidate.reason != "dialect" for candidate in decision.candidates):
        return None
    return GatewayError(
        "request_incompatible",
        f"No target of this route speaks this dialect, and the request cannot be translated: {refusal}.",
        param=refusal.field,
    )


def _parsed(job: Job) -> Body:
    """The body. One that cannot be read may be compressed: only then its head is asked."""
    try:
        return parse_body(job.raw, job.dialect)
    except GatewayError as error:
        coding = headers.value_of(job.exchange.head.fields, b"content-encoding")
        if coding is None or coding in headers.NOT_CODED:
            raise
        named = coding.decode("latin-1")[:32]
        said = f"Request body: `content-encoding: {named}` is not supported, send it plain."
        raise GatewayError("body_invalid", said, status=415) from error


def _around_model(job: Job) -> splice.Around:
    include_usage = bool(job.body.stream) and job.dialect == "openai"
    try:
        return splice.around_parsed_model(job.raw, include_usage=include_usage)
    except splice.SpliceRefused as error:
        raise GatewayError("body_invalid", f"Request body: {error}.") from error


def _ask(job: Job, session: Session, dialects: tuple[Dialect, ...]) -> Ask:
    body = job.body
    measured = body.measured()
    job.stored_files = measured.stored_files
    job.tier = tier = body.asked_tier(job.dialect)
    return Ask(
        request=job.request,
        tenant=job.principal.tenant.id,
        key=job.principal.key.id,
        route=job.route.name,
        dialect=job.dialect,
        session=session.id,
        stream=bool(body.stream),
        input_tokens=measured.tokens,
        max_output_tokens=0 if job.endpoint.counts else body.max_output_tokens,
        vision=body.has_images(),
        tools=body.has_tools(),
        reasoning=body.wants_reasoning(job.dialect),
        dialects=dialects,
        service_tiers=() if tier is None else _told_tiers(job, tier, dialects),
        documents=measured.documents > 0,
    )


def _told_tiers(job: Job, tier: str, dialects: tuple[Dialect, ...]) -> tuple[tuple[TargetId, str], ...]:
    """By target, the tier it is asked for where that is not the usual one."""
    found: list[tuple[TargetId, str]] = []
    wires: tuple[Dialect, ...] = (job.dialect, *dialects)
    for candidate in job.route.candidates:
        spoken = job.serving.targets[candidate.target].dialects
        upstream: Dialect | None = next(filter(spoken.__contains__, wires), None)
        told = None if upstream is None else tiers.told(job.dialect, upstream, tier)
        if told is not None:
            found.append((candidate.target, told))
    return tuple(found)
