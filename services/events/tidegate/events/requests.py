"""Events of the requests topic: what a client asked and how it ended."""

from typing import Literal

import msgspec

from tidegate.events.bounds import Count, Nanousd, Ns
from tidegate.events.types import Dialect, KeyId, TargetId

RequestOutcome = Literal["completed", "failed", "truncated", "cancelled"]


class RequestAdmitted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An authenticated, well-formed request entered. Counts and lengths only, never text."""

    key: KeyId
    route: str
    dialect: Dialect
    endpoint: str
    stream: bool = False
    session_source: str = "request"
    """Which header or field named the session."""
    body_bytes: Count = 0
    input_tokens: Count = 0
    stored_files: Count = 0
    """Images and documents of the prompt that are files at a provider: `input_tokens` holds a guess for each."""
    max_output_tokens: Count | None = None


class RequestRefused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An authenticated request was not served and no upstream was dialed."""

    key: KeyId
    code: str
    status: Count
    route: str | None = None
    detail: str | None = None


class RequestFinished(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How an admitted request ended. `decision` joins to DecisionMade."""

    key: KeyId
    route: str
    outcome: RequestOutcome
    status: Count | None
    attempts: Count
    decision: str
    target: TargetId | None = None
    code: str | None = None
    duration_ns: Ns = 0
    ttft_ns: Ns | None = None
    cost_nanousd: Nanousd | None = None
    overhead_ns: Ns | None = None
    """Time the gateway added: everything but waiting for upstreams and for the client."""
