"""The request's own events, written to the journal in order."""

from collections.abc import Sequence

from tidegate.events.decision import DecisionMade
from tidegate.events.journal.journal import Journal
from tidegate.events.journal.receipt import Context
from tidegate.events.partition import partition_of
from tidegate.events.requests import RequestAdmitted, RequestFinished, RequestOutcome, RequestRefused
from tidegate.events.signals import DemandSeen
from tidegate.events.topics import REQUESTS, SIGNALS
from tidegate.events.types import KeyId
from tidegate.gateway.errors import GatewayError
from tidegate.gateway.job import Job


def admitted(journal: Journal, job: Job, session_source: str) -> None:
    """RequestAdmitted; later events of the request name it as their cause."""
    ask = job.ask
    receipt = journal.record(
        REQUESTS,
        job.partition,
        job.request,
        RequestAdmitted(
            key=job.principal.key.id,
            route=ask.route,
            dialect=job.dialect,
            endpoint=job.endpoint.path,
            stream=ask.stream,
            session_source=session_source,
            body_bytes=len(job.raw),
            input_tokens=ask.input_tokens,
            stored_files=job.stored_files,
            max_output_tokens=ask.max_output_tokens,
        ),
        job.context,
    )
    job.context.cause = receipt.event


def decided(journal: Journal, job: Job, decision: DecisionMade, demand: Sequence[DemandSeen]) -> None:
    """DecisionMade, and DemandSeen for every admissible pool with windows."""
    receipt = journal.record(REQUESTS, job.partition, job.request, decision, job.context)
    job.context.cause = receipt.event
    for seen in demand:
        journal.record(SIGNALS, partition_of(seen.pool), seen.decision, seen, job.context)


def refused(journal: Journal, job: Job, error: GatewayError) -> None:
    """RequestRefused after the planner admitted nothing."""
    _refused(journal, job.partition, job.context, job.request, job.principal.key.id, job.ask.route, error)


def refused_early(
    journal: Journal, tenant: str, request: str, key: KeyId, route: str | None, error: GatewayError
) -> None:
    """RequestRefused of an authenticated request that never became an ask."""
    context = Context(tenant=tenant, request=request)
    _refused(journal, partition_of(request), context, request, key, route, error)


def _refused(
    journal: Journal,
    partition: int,
    context: Context,
    request: str,
    key: KeyId,
    route: str | None,
    error: GatewayError,
) -> None:
    # The error's message may quote the client's body: only its closed code is recorded.
    journal.record(
        REQUESTS,
        partition,
        request,
        RequestRefused(key=key, code=error.code, status=error.status, route=route),
        context,
    )


def finished(
    journal: Journal,
    job: Job,
    decision: DecisionMade,
    outcome: RequestOutcome,
    error: GatewayError | None,
) -> None:
    """RequestFinished, whatever the outcome."""
    now_ns = job.clock.mono_ns()
    journal.record(
        REQUESTS,
        job.partition,
        job.request,
        RequestFinished(
            key=job.principal.key.id,
            route=job.ask.route,
            outcome=outcome,
            status=200 if error is None else error.status,
            attempts=job.attempts,
            decision=decision.decision,
            target=job.target,
            code=None if error is None else error.code,
            duration_ns=now_ns - job.started_ns,
            ttft_ns=job.ttft_ns,
            cost_nanousd=job.cost_nanousd,
            overhead_ns=max(0, now_ns - job.started_ns - job.waited_ns),
        ),
        job.context,
    )
