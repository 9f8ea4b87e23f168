"""Names that must not be swapped: every identifier and unit of the contract has its own type."""

from typing import Literal, NewType

TenantId = NewType("TenantId", str)
KeyId = NewType("KeyId", str)
RequestId = NewType("RequestId", str)
SessionId = NewType("SessionId", str)
DecisionId = NewType("DecisionId", str)
AttemptId = NewType("AttemptId", str)
RouteName = NewType("RouteName", str)
TargetId = NewType("TargetId", str)
PoolId = NewType("PoolId", str)
WindowId = NewType("WindowId", str)
EventId = NewType("EventId", str)
SourceId = NewType("SourceId", str)

Dialect = Literal["openai", "anthropic", "openai-responses", "openai-embeddings"]
"""Wire dialect of a client or an upstream: chat completions, messages, responses, embeddings."""

Durability = Literal["strict", "fast"]
"""`strict`: a settlement is synced before the terminal bytes leave; `fast`: committed, synced in 50 ms."""

Basis = Literal["reported", "estimated", "none"]
"""How a settlement's usage is known: parsed from the provider, estimated by us, or provably unbilled."""

Unit = Literal["requests", "tokens", "nanousd"]
"""Unit in which a quota window counts."""

Cause = Literal[
    "quota_exhausted",
    "rate_limited",
    "unavailable",
    "transport",
    "auth",
    "invalid_request",
    "denied",
    "execution",
    "unknown",
]
"""The nine causes of a failed attempt (closed)."""
