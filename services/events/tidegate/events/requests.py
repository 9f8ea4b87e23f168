"""Events of the requests topic: what a client asked and how it ended."""

from typing import Literal

import msgspec

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
    body_bytes: int = 0
    input_tokens: int = 0
    stored_files: int = 0
    """Images and documents of the prompt that are files at a provider: `input_tokens` holds a guess for each."""
    max_output_tokens: int | None = None


class RequestRefused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An authenticated request was not served and no upstream was dialed."""

    key: KeyId
    code: str
    status: int
    route: str | None = None
    detail: str | None = None


class RequestFinished(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How an admitted request ended. `decision` joins to DecisionMade."""

    key: KeyId
    route: str
    outcome: RequestOutcome
    status: int | None
    attempts: int
    decision: str
    target: TargetId | None = None
    code: str | None = None
    duration_ns: int = 0
    ttft_ns: int | None = None
    cost_nanousd: int | None = None
    overhead_ns: int | None = None
    """Time the gateway added: everything but waiting for upstreams and for the client."""
