"""The numbers of a demo, and what is inconsistent among them. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tidegate.analytics.ledger import Entry, totals
from tidegate.analytics.reconcile import Reconciliation
from tidegate.analytics.replay_verify import ReplayReport
from tidegate.runtime.demo.driver import Tally
from tidegate.runtime.demo.forecasts import WindowForecasts
from tidegate.runtime.demo.log_view import LogView
from tidegate.runtime.demo.workload import Workload


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints. Money in nano-dollars; `added` is the gateway's own share of a request's time."""

    requests: int
    succeeded: int
    refused: int
    failed: int
    attempts: int
    failovers: int
    ledger_nanousd: int
    invoice_nanousd: int
    settlements: int
    by_basis: dict[str, int]
    corrections: int
    unsettled: int
    replay_identical: int
    replay_total: int
    events: int
    decision_p50_us: float
    decision_p99_us: float
    added_p50_ms: float
    added_p99_ms: float
    events_per_s: float
    took_s: float
    """How long the traffic took."""
    origin: str
    sessions: int
    clipped: int
    shortened: int
    skipped: int
    reasons: dict[str, int]
    """What did not succeed, by the code the client got."""
    forecasts: tuple[WindowForecasts, ...] = ()
    """Of each quota window when it was expected to run dry, and when it did; times of the trace."""
    findings: tuple[str, ...]
    """Every inconsistency; empty when all is well."""


class Evidence(NamedTuple):
    """What was found out after the traffic ended."""

    tally: Tally
    view: LogView
    again: Reconciliation
    """A second reconciliation, after the one that wrote the corrections: it must find nothing to correct."""
    replay: ReplayReport
    invoices: Mapping[str, int]
    """Each provider's total."""
    asked_again: Mapping[str, tuple[int | None, int | None]]
    """Attempts the provider did not report: (its answer when asked for it alone, our ledger)."""
    read_model_nanousd: int | None
    """The ledger's sum as the read model has it."""


def by_target(entries: Iterable[Entry]) -> dict[str, int]:
    """Ledger of each target, nano-dollars."""
    sums: dict[str, int] = {}
    for entry in entries:
        sums[entry.target] = sums.get(entry.target, 0) + (entry.ledger_nanousd or 0)
    return sums


def percentile(values: Sequence[int], share: float) -> float:
    """Nearest-rank percentile; 0 without values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return float(ordered[min(len(ordered) - 1, int(share * len(ordered)))])


def figures(workload: Workload, found: Evidence, forecasts: tuple[WindowForecasts, ...] = ()) -> Figures:
    """All numbers, from the log, the bills and the clients; `forecasts` from the read model."""
    tally, view = found.tally, found.view
    entries = list(view.ledger.entries.values())
    return Figures(
        requests=tally.requests,
        succeeded=tally.succeeded,
        refused=tally.refused,
        failed=tally.failed,
        attempts=view.events["AttemptStarted"],
        failovers=view.failovers,
        ledger_nanousd=totals(entries).nanousd,
        invoice_nanousd=sum(found.invoices.values()),
        settlements=view.events["UsageSettled"],
        by_basis=dict(Counter(entry.basis for entry in entries)),
        corrections=view.events["SettlementCorrected"],
        unsettled=len(view.ledger.open),
        replay_identical=found.replay.identical,
        replay_total=found.replay.decisions,
        events=view.total_events,
        decision_p50_us=round(percentile(view.decided_ns, 0.50) / 1e3, 1),
        decision_p99_us=round(percentile(view.decided_ns, 0.99) / 1e3, 1),
        added_p50_ms=round(percentile(view.added_ns, 0.50) / 1e6, 2),
        added_p99_ms=round(percentile(view.added_ns, 0.99) / 1e6, 2),
        events_per_s=round(view.total_events / tally.took_s, 1) if tally.took_s else 0.0,
        took_s=round(tally.took_s, 2),
        origin=workload.origin,
        sessions=workload.sessions,
        clipped=workload.clipped,
        shortened=workload.shortened,
        skipped=workload.skipped,
        reasons=dict(sorted(tally.reasons.items())),
        forecasts=forecasts,
        findings=tuple(findings(found)),
    )


def findings(found: Evidence) -> list[str]:
    """Every inconsistency, in words."""
    tally, view, again = found.tally, found.view, found.again
    ours = totals(view.ledger.entries.values())
    invoice = sum(found.invoices.values())
    started, settled = view.events["AttemptStarted"], view.events["UsageSettled"]
    ended, dead = view.ended_requests, view.events["DeadLetter"]
    apart = ours.nanousd - invoice
    model = found.read_model_nanousd
    checks = (
        (tally.requests != ended, f"{tally.requests} requests were sent, the log has the end of {ended}"),
        (view.ledger.open, f"{len(view.ledger.open)} attempts have no settlement"),
        (started != settled, f"{started} attempts, but {settled} settlements"),
        (ours.unpriced, f"the cost of {ours.unpriced} attempts is not known"),
        (apart, f"ledger {ours.nanousd} and invoices {invoice} differ by {apart} nano-dollars"),
        (again.unknown_lines, f"{len(again.unknown_lines)} lines are billed for no attempt of ours"),
        (again.corrections, f"a second reconciliation corrects {len(again.corrections)} attempts"),
        (model != ours.nanousd, f"the read model's ledger is {model}, the log's {ours.nanousd}"),
        (dead, f"{dead} records of the log are no events"),
    )
    listed = [text for is_wrong, text in checks if is_wrong]
    for attempt, (billed, ledger) in found.asked_again.items():
        if billed != ledger:
            listed.append(f"attempt {attempt}: the provider says {billed}, the ledger {ledger} nano-dollars")
    if found.replay.identical != found.replay.decisions:
        listed.append(_replay(found.replay))
    return listed


def _replay(report: ReplayReport) -> str:
    first = report.examples[0] if report.examples else None
    why = "" if first is None else f"; first: {first.decision} {first.outcome} {first.detail}".rstrip()
    return f"{report.decisions - report.identical} of {report.decisions} decisions do not replay identically{why}"
