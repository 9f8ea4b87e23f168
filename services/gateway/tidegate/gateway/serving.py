"""What one config means for serving, compiled once: keys, routes, and per target all that is constant."""

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
import orjson

from tidegate.events.config import Pool, Route, Routing, Target
from tidegate.events.money import FREE, ListPrice
from tidegate.events.partition import partition_of
from tidegate.events.types import Dialect, RouteName, TargetId
from tidegate.gateway.credentials import KeyDirectory
from tidegate.gateway.crossings import PREFERRED, Speech, crossed_dialects
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.quirks import PLAIN, Quirks
from tidegate.gateway.endpoints import COUNT, PATHS
from tidegate.gateway.headers import forwarded_names
from tidegate.gateway.outbound.origin import OriginPolicy
from tidegate.gateway.outbound.tunnel import Proxy
from tidegate.gateway.patience import for_whole_answers
from tidegate.gateway.upstream import PreparedTarget, Upstream
from tidegate.gateway.usage_rules import rules_for

DEFAULT_RESERVE_TOKENS = 4_096
MAX_RESERVE_TOKENS = 262_144
"""What a client's own bound is worth at most where the target states none: no model writes more."""


class ServedTarget:
    """A target ready to be called."""

    __slots__ = (
        "_prices",
        "_secret",
        "_steady",
        "config",
        "dialects",
        "forwarded",
        "measured",
        "model_json",
        "origin",
        "partition",
        "pool",
        "prepared",
        "quota_noted_ns",
        "read_on",
        "speech",
        "usage_rules",
        "whole_deadlines",
        "windows",
    )

    def __init__(
        self,
        config: Target,
        pool: Pool,
        prepared: Mapping[str, PreparedTarget],
        secret: str | None = None,
    ) -> None:
        """`prepared` are its calls by path."""
        self._secret = secret
        self.config = config
        self.pool = pool
        self.prepared = prepared
        self.model_json = orjson.dumps(config.model)
        self.partition = partition_of(pool.id)
        self.dialects: tuple[Dialect, ...] = (config.dialect, *config.also_speaks)
        quirks = msgspec.convert(config.quirks, Quirks) if config.quirks else PLAIN
        self.speech = Speech(self.dialects, quirks)
        self.origin = _origin(config)
        """Who made an answer of this target, for those who must tell its turns from others'."""
        self.forwarded = {
            dialect: forwarded_names(dialect, config.forward_headers) for dialect in self.dialects
        }
        self.usage_rules = {
            dialect: rules_for(dialect, config.provider, config.base_url) for dialect in self.dialects
        }
        self.read_on = _read_on(config, pool)
        """Whether answers that stream, and those that do not, are read to their end though nobody waits for them."""
        self.windows = {window.id: window for window in pool.windows}
        self.measured = {window.scope: window for window in pool.windows if window.scope is not None}
        """Windows by the limit in the provider's headers that tells of them."""
        self.whole_deadlines = for_whole_answers(config.deadlines)
        """Deadlines of a call whose head comes with its finished answer."""
        self.quota_noted_ns = 0
        """When the provider's own limits were last recorded, monotonic."""
        self._prices = [(dated.from_ns, dated.list_price()) for dated in config.prices]
        self._steady = self._prices[0][1] if len(self._prices) == 1 and self._prices[0][0] <= 0 else None
        """The price, where it is the same at all times."""

    def price(self, now_ns: int) -> ListPrice | None:
        """What a token costs here now: nothing in a flat pool."""
        return FREE if self.pool.billing == "flat" else self.list_price(now_ns)

    def list_price(self, now_ns: int) -> ListPrice | None:
        """The target's list price in force at `now_ns`, None when none is."""
        price = self._steady
        if price is not None:
            return price
        for from_ns, listed in self._prices:
            if from_ns <= now_ns:
                price = listed
        return price

    def conceal(self, words: str) -> str:
        """The provider's words without our credential, should it have repeated it."""
        return words if self._secret is None else words.replace(self._secret, "[credential]")

    def reserve_tokens(self, asked: int | None) -> int:
        """Output tokens assumed when the usage stays unknown: the client's bound, else the model's."""
        limit = self.output_limit(asked)
        return DEFAULT_RESERVE_TOKENS if limit is None else limit

    def output_limit(self, asked: int | None) -> int | None:
        """As many output tokens as one answer can have: the lesser bound of client and model; None: no bound."""
        limit = self.config.max_output_tokens
        if asked is None:
            return limit
        return min(asked, MAX_RESERVE_TOKENS if limit is None else limit)


def _read_on(config: Target, pool: Pool) -> tuple[bool, bool]:
    """A whole answer is billed whether it is read or not, and only its end tells how much."""
    usual = "cancel" if pool.billing == "flat" else "finish_whole"
    wanted = config.when_abandoned or usual
    return wanted == "finish", wanted != "cancel"


def _origin(config: Target) -> str:
    vendor = config.provider or urlsplit(config.base_url).netloc
    # What OpenAI seals, only the same account can open.
    return (
        f"{vendor}#{config.secret}" if "openai-responses" in (config.dialect, *config.also_speaks) else vendor
    )


class Serving:
    """Everything a request needs of the config in force; running requests keep the one they began with."""

    def __init__(self, routing: Routing, secrets: Mapping[str, str], upstream: Upstream) -> None:
        """`secrets` are by reference, as the config names them."""
        self.routing = routing
        self.digest = routing.digest()
        self.keys = KeyDirectory(routing)
        self.routes: dict[RouteName, Route] = {route.name: route for route in routing.routes}
        spoken: dict[TargetId, tuple[Dialect, ...]] = {
            target.id: (target.dialect, *target.also_speaks) for target in routing.targets
        }
        self.crossed: dict[tuple[RouteName, Dialect], tuple[Wire, ...]] = {
            (route.name, client): crossed_dialects(client, [spoken[each.target] for each in route.candidates])
            for route in routing.routes
            for client in PREFERRED
        }
        """By route and client dialect, what a request may have to be put in."""
        quirky = {target.id for target in routing.targets if target.quirks}
        self.quirky = frozenset(
            route.name for route in routing.routes if any(each.target in quirky for each in route.candidates)
        )
        """Routes with a target that deviates from its dialect."""
        self.targets: dict[TargetId, ServedTarget] = {
            target.id: ServedTarget(
                target,
                routing.pool_of(target),
                _prepare(target, secrets, upstream),
                _secret(target.secret, secrets),
            )
            for target in routing.targets
        }

        self.has_several_origins = len({target.origin for target in self.targets.values()}) > 1
        """Whether a conversation may come to a provider that did not produce all of it."""

    def without_price(self, now_ns: int) -> int:
        """How many targets that may be used have no price of their own now."""
        return sum(target.config.enabled and target.price(now_ns) is None for target in self.targets.values())


def _secret(reference: str | None, secrets: Mapping[str, str]) -> str | None:
    return None if reference is None else secrets.get(reference)


def _prepare(target: Target, secrets: Mapping[str, str], upstream: Upstream) -> dict[str, PreparedTarget]:
    """The target's calls by path."""
    secret = _secret(target.secret, secrets)
    proxy = None
    if target.proxy is not None:
        proxy = Proxy.parse(target.proxy, _secret(target.proxy_secret, secrets))
    policy = OriginPolicy(allow_private=target.allow_private, ca_file=target.ca_file, proxy=proxy)
    base = target.base_url.rstrip("/").removesuffix("/v1")
    paths: dict[str, Dialect] = {PATHS[dialect]: dialect for dialect in (target.dialect, *target.also_speaks)}
    if PATHS["anthropic"] in paths:
        paths[COUNT.path] = "anthropic"
    return {
        path: upstream.prepare(base + path, _own_headers(dialect, secret), policy=policy)
        for path, dialect in paths.items()
    }


def _own_headers(dialect: Dialect, secret: str | None) -> list[tuple[bytes, bytes]]:
    headers: list[tuple[bytes, bytes]] = [
        (b"content-type", b"application/json"),
        (b"accept-encoding", b"identity"),
        (b"user-agent", b"tidegate"),
    ]
    if secret is not None:
        if dialect == "anthropic":
            headers.append((b"x-api-key", secret.encode()))
        else:
            headers.append((b"authorization", b"Bearer " + secret.encode()))
    return headers
