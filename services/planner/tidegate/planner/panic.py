"""When nothing but their failures keeps every candidate out, they are tried one request at a time. Pure.

How long a fault lasts is a guess; a wrong one must not turn every client away from a provider that is well again.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from tidegate.events.causes import FAULTS, NS_PER_S
from tidegate.events.decision import LocalView
from tidegate.planner.admission import PROBES_IN_FLIGHT, Asked, Refusal
from tidegate.planner.appraise import Admitted, Refused, appraise
from tidegate.planner.facts import CandidateFacts

TRICKLE_NS = NS_PER_S
"""Between two requests of one worker to a target that is closed."""


def let_through(
    refused: Sequence[Refused], asked: Asked, now_ns: int
) -> tuple[list[Admitted], list[Refused]]:
    """Candidates to be tried although they are closed, and those that stay refused.

    To be asked when none is admitted. One whose turn has not come says when it will.
    """
    admitted: list[Admitted] = []
    left: list[Refused] = []
    for each in refused:
        facts, local, refusal = each
        due_ns = None
        if refusal.reason == "circuit_refusing":
            due_ns = _due_ns(facts, local, now_ns)
        if due_ns is None:
            left.append(each)
        elif due_ns > now_ns:
            known_ns = refusal.retry_at_ns
            at_ns = due_ns if known_ns is None else min(due_ns, known_ns)
            left.append(Refused(facts, local, replace(refusal, retry_at_ns=at_ns)))
        else:
            as_open = replace(facts, circuit="admitting"), replace(local, refusing_until_ns=None)
            found = appraise(as_open[0], asked, as_open[1], now_ns)
            if isinstance(found, Refusal):
                left.append(Refused(facts, local, found))
            else:
                spend, _, output, time, rest = found
                admitted.append((spend, facts, output, time, (local, *rest[1:])))
    return admitted, left


def _due_ns(facts: CandidateFacts, local: LocalView, now_ns: int) -> int | None:
    """From when a request may be sent; None where somebody said that none may, or an operator must."""
    own_ns, tried_ns = local.refusing_until_ns, local.tried_at_ns
    if own_ns is not None and own_ns > now_ns and tried_ns is None:
        return None
    if facts.circuit == "refusing" and facts.circuit_cause not in FAULTS:
        return None
    if tried_ns is not None:
        return tried_ns + TRICKLE_NS
    return now_ns + (TRICKLE_NS if local.in_flight >= PROBES_IN_FLIGHT else 0)
