"""The numbers of a demo, and what is inconsistent among them. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from tidegate.analytics.ledger import totals
from tidegate.analytics.reconcile import Reconciliation
from tidegate.analytics.replay_verify import ReplayReport
from tidegate.runtime.demo.driver import Tally
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
    findings: tuple[str, ...]
    """Every inconsistency; empty when all is well."""


class Evidence(NamedTuple):
    """What was found out after the traffic ended."""

    tally: Tally
    view: LogView
    before: Reconciliation
    """The reconciliation that wrote corrections."""
    after: Reconciliation
    """A second one, which must find nothing to correct."""
    replay: ReplayReport
    invoices: Mapping[str, int]
    """Each provider's total."""
    asked_again: Mapping[str, tuple[int | None, int | None]]
    """Attempts the provider did not report: (its answer when asked for it alone, our ledger)."""
    read_model_nanousd: int | None
    """The ledger's sum as the read model has it."""


def percentile(values: Sequence[int], share: float) -> float:
    """Nearest-rank percentile; 0 without values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return float(ordered[min(len(ordered) - 1, int(share * len(ordered)))])


def figures(workload: Workload, found: Evidence) -> Figures:
    """All numbers, from the log, the bills and the clients."""
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
        findings=tuple(findings(found)),
    )


def findings(found: Evidence) -> list[str]:
    """Every inconsistency, in words."""
    tally, view, after = found.tally, found.view, found.after
    ours = totals(view.ledger.entries.values())
    invoice = sum(found.invoices.values())
    checks = {
        f"{tally.requests} requests were sent, the log has the end of {view.ended_requests}": tally.requests
        != view.ended_requests,
        f"{len(view.ledger.open)} attempts have no settlement": bool(view.ledger.open),
        f"{view.events['AttemptStarted']} attempts, but {view.events['UsageSettled']} settlements": view.events[
            "AttemptStarted"
        ]
        != view.events["UsageSettled"],
        f"the cost of {ours.unpriced} attempts is not known": bool(ours.unpriced),
        f"ledger {ours.nanousd} and invoices {invoice} differ by {ours.nanousd - invoice} nano-dollars": ours.nanousd
        != invoice,
        f"{len(after.unknown_lines)} lines are billed for no attempt of ours": bool(after.unknown_lines),
        f"a second reconciliation still corrects {len(after.corrections)} attempts": bool(after.corrections),
        f"the read model's ledger is {found.read_model_nanousd}, the log's {ours.nanousd}": found.read_model_nanousd
        != ours.nanousd,
        f"{view.events['DeadLetter']} records of the log are no events": bool(view.events["DeadLetter"]),
    }
    listed = [text for text, is_wrong in checks.items() if is_wrong]
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
