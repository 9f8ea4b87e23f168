"""The model endpoints: which path is which dialect, for clients and for upstreams. Pure."""

import msgspec

from tidegate.events.types import Dialect


class Endpoint(msgspec.Struct, frozen=True):
    """One path that takes model requests. `counts`: it only counts tokens, which costs nothing; `writes`: a model
    writes its answer, word by word."""

    path: str
    dialect: Dialect
    counts: bool = False
    writes: bool = True


CHAT = Endpoint("/v1/chat/completions", "openai")
MESSAGES = Endpoint("/v1/messages", "anthropic")
COUNT = Endpoint("/v1/messages/count_tokens", "anthropic", counts=True, writes=False)
RESPONSES = Endpoint("/v1/responses", "openai-responses")
EMBEDDINGS = Endpoint("/v1/embeddings", "openai-embeddings", writes=False)
ENDPOINTS = {endpoint.path: endpoint for endpoint in (CHAT, MESSAGES, COUNT, RESPONSES, EMBEDDINGS)}
PATHS: dict[Dialect, str] = {
    endpoint.dialect: endpoint.path for endpoint in (CHAT, MESSAGES, RESPONSES, EMBEDDINGS)
}
"""Where an upstream takes requests of a dialect, behind its base URL."""
