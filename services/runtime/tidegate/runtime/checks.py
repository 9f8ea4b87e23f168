"""What types can not say of a config: what refers to what, addresses, prices, secrets by reference. Pure."""

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

import msgspec

from tidegate.events.config import Key, LogSettings, Pool, Route, Settings, Target, Tenant, Window
from tidegate.runtime.pricebook.price_lists import list_mistakes
from tidegate.runtime.references import NO_REFERENCE, is_reference
from tidegate.runtime.toml_lines import Path
from tidegate.runtime.validation import BAD, Mistake, NotRead, as_far_as_read, needed

_NEVER_FORWARDED = frozenset({"x-api-key", "x-tidegate-attempt-id", "x-forwarded-for", "x-forwarded-host"})
_EVERY_HOST = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not listened on
_BROKER = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:.]+\]):[1-9]\d{0,4}")


def find_mistakes(settings: Settings) -> list[Mistake]:
    """Every mistake between the parts of a config that could be read; of the others nothing is concluded."""
    return [
        *_twice(("tenants",), settings.tenants),
        *_twice(("keys",), settings.keys),
        *_twice(("keys",), settings.keys, field="digest"),
        *_twice(("pools",), settings.pools),
        *_twice(("targets",), settings.targets),
        *_twice(("routes",), settings.routes, field="name"),
        *_ports(settings),
        *_tenants(settings),
        *_keys(settings),
        *_pools(settings),
        *_targets(settings),
        *_weights(settings),
        *_routes(settings),
        *_log(settings.log),
        *_references(settings),
    ]


@as_far_as_read
def _twice(table: Path, parts: Iterable[object], field: str = "id") -> Iterator[Mistake]:
    seen: set[str] = set()
    for index, part in enumerate(parts):
        name = getattr(part, field)
        if name is BAD:
            continue
        if name in seen:
            yield Mistake((*table, index, field), f"`{name}` is used twice in [[{table[0]}]]")
        seen.add(name)


def _ports(settings: Settings) -> Iterator[Mistake]:
    """Listeners of one machine that could not all be opened; port 0 is a free one each time."""
    known: dict[int, list[tuple[str, str]]] = {}
    for table, host, port in (
        ("gateway", settings.gateway.host, settings.gateway.port),
        ("admin", settings.admin.host, settings.admin.port),
        ("metrics", settings.metrics.host, settings.metrics.port),
    ):
        if host is BAD or port is BAD or not port:
            continue
        for other, its_host in known.setdefault(port, []):
            if host == its_host or not _EVERY_HOST.isdisjoint((host, its_host)):
                yield Mistake((table, "port"), f"{port} is the port of [{other}] already")
                break
        known[port].append((table, host))


def _names(parts: Iterable[object], field: str = "id") -> AbstractSet[str]:
    """All names of a table; BAD where one could not be read, which any other may refer to."""
    try:
        return {getattr(part, field) for part in parts}
    except NotRead:
        unknown: AbstractSet[str] = BAD
        return unknown


@as_far_as_read
def _known(path: Path, what: str, name: str, names: AbstractSet[str]) -> Iterator[Mistake]:
    if name not in names:
        yield Mistake(path, f"there is no {what} `{name}`")


@as_far_as_read
def _tenants(settings: Settings) -> Iterator[Mistake]:
    routes = _names(settings.routes, "name")
    for index, tenant in enumerate(settings.tenants):
        yield from _known_routes(("tenants", index, "routes"), tenant, routes)


@as_far_as_read
def _keys(settings: Settings) -> Iterator[Mistake]:
    tenants, routes = _names(settings.tenants), _names(settings.routes, "name")
    for index, key in enumerate(settings.keys):
        yield from _known(("keys", index, "tenant"), "tenant", key.tenant, tenants)
        yield from _known_routes(("keys", index, "routes"), key, routes)


@as_far_as_read
def _known_routes(path: Path, of: Key | Tenant, routes: AbstractSet[str]) -> Iterator[Mistake]:
    for name in of.routes or ():
        yield from _known(path, "route", name, routes)


@as_far_as_read
def _pools(settings: Settings) -> Iterator[Mistake]:
    for index, pool in enumerate(settings.pools):
        yield from _windows(("pools", index, "windows"), pool)
        yield from _bounded(("pools", index), pool)


@as_far_as_read
def _windows(path: Path, pool: Pool) -> Iterator[Mistake]:
    seen: set[str] = set()
    for place, window in enumerate(pool.windows):
        if window.id is not BAD and window.id in seen:
            yield Mistake((*path, place, "id"), f"pool `{pool.id}` has two windows `{window.id}`")
        if window.id is not BAD:
            seen.add(window.id)
        yield from _scope((*path, place), window)
        for other in pool.windows[:place]:
            yield from _scope_twice((*path, place, "scope"), pool, other, window)


@as_far_as_read
def _bounded(path: Path, pool: Pool) -> Iterator[Mistake]:
    if pool.billing == "flat" and not pool.windows:
        yield Mistake(path, f"flat pool `{pool.id}` needs a window: nothing else bounds its use")


@as_far_as_read
def _scope(path: Path, window: Window) -> Iterator[Mistake]:
    if window.scope is None:
        if window.percent_only:
            said = f"window `{window.id}` needs `scope`: which of the provider's limits it is"
            yield Mistake((*path, "percent_only"), said)
    elif window.kind == "rolling":
        said = (
            f"`{window.id}` rolls: what providers tell of limits are periods with a reset, which it has not"
        )
        yield Mistake((*path, "scope"), said)


@as_far_as_read
def _scope_twice(path: Path, pool: Pool, other: Window, window: Window) -> Iterator[Mistake]:
    if window.scope is not None and other.scope == window.scope:
        said = f"windows `{other.id}` and `{window.id}` of pool `{pool.id}` have the same `scope`"
        yield Mistake(path, said)


@as_far_as_read
def _targets(settings: Settings) -> Iterator[Mistake]:
    pools = _names(settings.pools)
    for index, target in enumerate(settings.targets):
        path: Path = ("targets", index)
        if target.pool is not None:
            yield from _known((*path, "pool"), "pool", target.pool, pools)
        yield from _shared(path, target, settings.gateway.workers)
        yield from list_mistakes((*path, "prices"), target.id, target.prices)
        yield from _priced(path, target)
        yield from _proxy(path, target)
        yield from _base_url(path, target)
        yield from _absolute((*path, "ca_file"), target.ca_file)
        yield from _dialects((*path, "also_speaks"), target)
        yield from _quirks((*path, "quirks"), target)
        yield from _forwarded((*path, "forward_headers"), target)


@as_far_as_read
def _shared(path: Path, target: Target, workers: int) -> Iterator[Mistake]:
    if target.max_in_flight is not None and target.max_in_flight < workers:
        said = f"{target.max_in_flight} at once is less than one for each of {workers} workers"
        yield Mistake((*path, "max_in_flight"), said)


@as_far_as_read
def _priced(path: Path, target: Target) -> Iterator[Mistake]:
    for place, price in enumerate(target.prices):
        for name in ("input_uncached", "output"):
            if getattr(price, name) is None:
                where: Path = (*path, "prices", place)
                yield Mistake(where, f"`{name}` is missing: without it no answer of `{target.id}` has a cost")


@as_far_as_read
def _dialects(path: Path, target: Target) -> Iterator[Mistake]:
    for place, dialect in enumerate(target.also_speaks):
        if dialect == target.dialect or dialect in target.also_speaks[:place]:
            yield Mistake((*path, place), f"`{target.id}` speaks `{dialect}` already")


@as_far_as_read
def _forwarded(path: Path, target: Target) -> Iterator[Mistake]:
    for name in target.forward_headers:
        if name in _NEVER_FORWARDED:
            yield Mistake(path, f"`{name}` is never forwarded")


@as_far_as_read
def _weights(settings: Settings) -> Iterator[Mistake]:
    """Windows of requests count in whole ones: a part of one would have to count as one, and the plan lie idle."""
    for index, target in enumerate(settings.targets):
        for pool in settings.pools:
            yield from _weight(("targets", index, "quota_weight"), target, pool)


@as_far_as_read
def _weight(path: Path, target: Target, pool: Pool) -> Iterator[Mistake]:
    for window in pool.windows if target.pool_id == pool.id else ():
        if window.unit != "requests":
            continue
        hours = [1.0, *(peak.weight for peak in window.peaks)]
        parts = [weight * target.quota_weight for weight in hours]
        odd = next((part for part in parts if part != int(part)), None)
        if odd is not None:
            said = (
                f"a request of `{target.id}` would count {odd:g} times in window `{window.id}`, which counts"
                " requests: multiply its limit and every weight of its pool until all are whole numbers"
            )
            yield Mistake(path, said)


@as_far_as_read
def _quirks(path: Path, target: Target) -> Iterator[Mistake]:
    from tidegate.gateway.dialects.quirks import Quirks

    needed(target.quirks)
    try:
        msgspec.convert(target.quirks, Quirks)
    except msgspec.ValidationError as error:
        known = ", ".join(Quirks.__struct_fields__)
        yield Mistake(path, f"quirks of `{target.id}`: {error}; known: {known}")


@as_far_as_read
def _proxy(path: Path, target: Target) -> Iterator[Mistake]:
    # Here, because roles without targets need no HTTP client.
    from tidegate.gateway.outbound.faults import TargetInvalid
    from tidegate.gateway.outbound.tunnel import Proxy

    needed(target.proxy)
    if target.proxy is not None:
        try:
            Proxy.parse(target.proxy)
        except TargetInvalid as error:
            yield Mistake((*path, "proxy"), f"`proxy` of `{target.id}`: {error}")
    elif target.proxy_secret is not None:
        yield Mistake((*path, "proxy_secret"), f"`{target.id}` has a `proxy_secret` and no `proxy`")


@as_far_as_read
def _base_url(path: Path, target: Target) -> Iterator[Mistake]:
    from tidegate.gateway.outbound.faults import TargetInvalid
    from tidegate.gateway.outbound.origin import OriginPolicy, parse_base

    needed(target.base_url, target.allow_private)
    try:
        parse_base(target.base_url, OriginPolicy(allow_private=target.allow_private))
    except TargetInvalid as error:
        yield Mistake((*path, "base_url"), f"`base_url` of `{target.id}`: {error}")


@as_far_as_read
def _absolute(path: Path, file: str | None) -> Iterator[Mistake]:
    if file is not None and not file.startswith("/"):
        yield Mistake(path, "must be an absolute path: each process has a working folder of its own")


@as_far_as_read
def _routes(settings: Settings) -> Iterator[Mistake]:
    targets = _names(settings.targets)
    for index, route in enumerate(settings.routes):
        yield from _candidates(("routes", index), route, targets)


@as_far_as_read
def _candidates(path: Path, route: Route, targets: AbstractSet[str]) -> Iterator[Mistake]:
    if not route.candidates:
        yield Mistake(path, f"route `{route.name}` has no candidates")
    seen: set[str] = set()
    for place, candidate in enumerate(route.candidates):
        where: Path = (*path, "candidates", place, "target")
        yield from _known(where, "target", candidate.target, targets)
        if candidate.target is BAD:
            continue
        if candidate.target in seen:
            yield Mistake(where, f"route `{route.name}` names `{candidate.target}` twice")
        seen.add(candidate.target)


def _log(log: LogSettings) -> Iterator[Mistake]:
    yield from _brokers(log)
    yield from _sasl(log)
    yield from _authorities(log)
    yield from _absolute(("log", "ca_file"), log.ca_file)


@as_far_as_read
def _brokers(log: LogSettings) -> Iterator[Mistake]:
    needed(log.bootstrap)
    for broker in [] if log.bootstrap is None else log.bootstrap.split(","):
        if _BROKER.fullmatch(broker.strip()) is None or int(broker.rpartition(":")[2]) > 65_535:
            yield Mistake(("log", "bootstrap"), "must be host:port, several of them with commas between")
            break
    if log.kind == "kafka" and not log.bootstrap:
        yield Mistake(("log",), "`bootstrap` is missing: a Kafka log needs host:port")


@as_far_as_read
def _sasl(log: LogSettings) -> Iterator[Mistake]:
    needed(log.sasl)
    if log.sasl is not None:
        for name in ("username", "password"):
            if getattr(log, name) is None:
                yield Mistake(("log",), f"`{name}` is missing: SASL needs it")
    elif log.username is not None or log.password is not None:
        yield Mistake(
            ("log",), "`username` and `password` need `sasl`: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
        )


@as_far_as_read
def _authorities(log: LogSettings) -> Iterator[Mistake]:
    if log.ca_file is not None and not log.tls:
        yield Mistake(("log", "ca_file"), "needs `tls = true`")


def secret_places(settings: Settings) -> Iterator[tuple[Path, str]]:
    """Every place of a config that names a secret, with what stands there, where that could be read."""
    single: tuple[tuple[Path, str | None], ...] = (
        (("data_key",), settings.data_key),
        (("log", "password"), settings.log.password),
        (("admin", "token"), settings.admin.token),
        (("metrics", "token"), settings.metrics.token),
    )
    for path, reference in single:
        if reference is not None and reference is not BAD:
            yield path, reference
    for index, target in enumerate(() if settings.targets is BAD else settings.targets):
        for name, reference in (("secret", target.secret), ("proxy_secret", target.proxy_secret)):
            if reference is not None and reference is not BAD:
                yield ("targets", index, name), reference


def _references(settings: Settings) -> Iterator[Mistake]:
    for path, reference in secret_places(settings):
        if not is_reference(reference):
            yield Mistake(path, NO_REFERENCE)
