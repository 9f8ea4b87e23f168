"""What the demo drives: timed requests of sessions, and a seeded generator of them. Pure."""

import random
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

TENANTS = ("acme", "globex")
BLOCK_TOKENS = 64


class Span(NamedTuple):
    """Consecutive block ids of one scope: equal (scope, id) means equal bytes."""

    scope: str
    first: int
    blocks: int


class TimedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request: when, whose, and how long prompt and answer are. Times are nominal seconds from start.

    `spans` name the prompt's blocks from its first byte on; what they do not cover is this request's own.
    `tool_tokens` and `system_tokens` are the parts of the prompt that are tool definitions and system text.
    """

    session: str
    strand: int
    """Requests of one strand follow one another; a sub-agent is a strand of its own."""
    tenant: str
    at_s: float
    spans: tuple[Span, ...]
    block_tokens: int
    input_tokens: int
    output_tokens: int
    tool_tokens: int = 0
    system_tokens: int = 0
    stream: bool = True


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Requests in order of time, where they come from, and what was changed of the original."""

    origin: str
    requests: tuple[TimedRequest, ...]
    sessions: int
    clipped: int = 0
    """Requests whose prompt was cut to the limit."""
    shortened: int = 0
    """Pauses that were cut to the limit."""
    skipped: int = 0
    """Requests that had no answer when they were recorded: they are not driven."""

    def span_s(self) -> float:
        """Nominal seconds from the first request to the last."""
        times = [request.at_s for request in self.requests]
        return max(times) - min(times) if times else 0.0

    def input_tokens(self) -> int:
        """Prompt tokens of all requests."""
        return sum(request.input_tokens for request in self.requests)

    def strands(self) -> list[list[TimedRequest]]:
        """Requests by session and strand, each in order of time."""
        found: dict[tuple[str, int], list[TimedRequest]] = defaultdict(list)
        for request in self.requests:
            found[request.session, request.strand].append(request)
        return list(found.values())


def tenant_of(index: int) -> str:
    """Whose the session with this number is: two of three are the first tenant's."""
    return TENANTS[1] if index % 3 == 2 else TENANTS[0]


def in_order(requests: Iterable[TimedRequest]) -> tuple[TimedRequest, ...]:
    """Sorted by time; ties by session and strand, so that the order is always the same."""
    return tuple(sorted(requests, key=lambda request: (request.at_s, request.session, request.strand)))


def clip(workload: Workload, max_input_tokens: int) -> Workload:
    """The workload with every prompt cut to at most `max_input_tokens`; `clipped` says how many were."""
    clipped = sum(request.input_tokens > max_input_tokens for request in workload.requests)
    if not clipped:
        return workload
    cut = tuple(
        msgspec.structs.replace(request, input_tokens=min(request.input_tokens, max_input_tokens))
        for request in workload.requests
    )
    return msgspec.structs.replace(workload, requests=cut, clipped=clipped)


_AGENT_GAP_S = (4.0, 20.0)
_PERSON_GAP_S = (40.0, 240.0)
_PERSON_SHARE = 0.2
_ARRIVALS_S = 2_600.0
_TOOL_TOKENS, _SYSTEM_TOKENS = 768, 1_280
_FIRST_BLOCKS = (6, 60)
_TURN_BLOCKS = (2, 24)
_OUTPUT_TOKENS = (30, 420)
_MAX_BLOCKS = 20_000 // BLOCK_TOKENS
_STREAMED = 0.8


def generate(sessions: int, seed: int) -> Workload:
    """Coding-agent sessions of our own making: a shared head with tools, prompts that grow with every turn,
    short pauses while an agent works and long ones while a person reads. The same seed gives the same bytes."""
    rng = random.Random(seed)  # noqa: S311 - a workload, not a secret
    requests: list[TimedRequest] = []
    for index in range(sessions):
        requests += _session(rng, index)
    return Workload(origin=f"generated (seed {seed})", requests=in_order(requests), sessions=sessions)


def _session(rng: random.Random, index: int) -> list[TimedRequest]:
    tenant = tenant_of(index)
    session = f"session-{index + 1:03d}"
    head = Span(f"head of {tenant}", 0, (_TOOL_TOKENS + _SYSTEM_TOKENS) // BLOCK_TOKENS)
    at_s = rng.uniform(0.0, _ARRIVALS_S)
    blocks = rng.randint(*_FIRST_BLOCKS)
    requests: list[TimedRequest] = []
    for _ in range(rng.randint(5, 16)):
        blocks = min(blocks, _MAX_BLOCKS - head.blocks)
        output = rng.randint(*_OUTPUT_TOKENS)
        requests.append(
            TimedRequest(
                session=session,
                strand=0,
                tenant=tenant,
                at_s=at_s,
                spans=(head, Span(session, 0, blocks)),
                block_tokens=BLOCK_TOKENS,
                input_tokens=(head.blocks + blocks) * BLOCK_TOKENS + rng.randrange(BLOCK_TOKENS),
                output_tokens=output,
                tool_tokens=_TOOL_TOKENS,
                system_tokens=_SYSTEM_TOKENS,
                stream=rng.random() < _STREAMED,
            )
        )
        blocks += output // BLOCK_TOKENS + rng.randint(*_TURN_BLOCKS)
        gap_s = _PERSON_GAP_S if rng.random() < _PERSON_SHARE else _AGENT_GAP_S
        at_s += rng.uniform(*gap_s)
    return requests
