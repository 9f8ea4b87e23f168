"""What types can not say of a config: what refers to what, addresses, prices, secrets by reference. Pure."""

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

import msgspec

from tidegate.events.config import LogSettings, Pool, Settings, Target
from tidegate.runtime.pricebook.price_lists import list_mistakes
from tidegate.runtime.references import NO_REFERENCE, is_reference
from tidegate.runtime.toml_lines import Path
from tidegate.runtime.validation import Mistake

_NEVER_FORWARDED = frozenset({"x-api-key", "x-tidegate-attempt-id", "x-forwarded-for", "x-forwarded-host"})
_EVERY_HOST = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not listened on
_BROKER = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:.]+\]):[1-9]\d{0,4}")


def find_mistakes(settings: Settings) -> list[Mistake]:
    """Every mistake between the parts of a config whose types are right."""
    return [
        *_duplicates("tenants", (tenant.id for tenant in settings.tenants)),
        *_duplicates("keys", (key.id for key in settings.keys)),
        *_duplicates("keys", (key.digest for key in settings.keys), field="digest"),
        *_duplicates("pools", (pool.id for pool in settings.pools)),
        *_duplicates("targets", (target.id for target in settings.targets)),
        *_duplicates("routes", (route.name for route in settings.routes), field="name"),
        *_ports(settings),
        *_keys(settings),
        *_pools(settings.pools),
        *_targets(settings),
        *_weights(settings),
        *_routes(settings),
        *_log(settings.log),
        *_references(settings),
    ]


def _duplicates(table: str, ids: Iterable[str], field: str = "id") -> Iterator[Mistake]:
    seen: set[str] = set()
    for index, name in enumerate(ids):
        if name in seen:
            yield Mistake((table, index, field), f"`{name}` is used twice in [[{table}]]")
        seen.add(name)


def _ports(settings: Settings) -> Iterator[Mistake]:
    """Listeners of one machine that could not all be opened; port 0 is a free one each time."""
    known: dict[int, list[tuple[str, str]]] = {}
    for table, host, port in (
        ("gateway", settings.gateway.host, settings.gateway.port),
        ("admin", settings.admin.host, settings.admin.port),
        ("metrics", settings.metrics.host, settings.metrics.port),
    ):
        if not port:
            continue
        for other, its_host in known.setdefault(port, []):
            if host == its_host or not _EVERY_HOST.isdisjoint((host, its_host)):
                yield Mistake((table, "port"), f"{port} is the port of [{other}] already")
                break
        known[port].append((table, host))


def _keys(settings: Settings) -> Iterator[Mistake]:
    tenants = {tenant.id for tenant in settings.tenants}
    routes = {route.name for route in settings.routes}
    for index, key in enumerate(settings.keys):
        if key.tenant not in tenants:
            yield Mistake(("keys", index, "tenant"), f"there is no tenant `{key.tenant}`")
        yield from _known_routes(("keys", index, "routes"), key.routes, routes)
    for index, tenant in enumerate(settings.tenants):
        yield from _known_routes(("tenants", index, "routes"), tenant.routes, routes)


def _known_routes(path: Path, names: Iterable[str] | None, routes: AbstractSet[str]) -> Iterator[Mistake]:
    for name in names or ():
        if name not in routes:
            yield Mistake(path, f"there is no route `{name}`")


def _pools(pools: Iterable[Pool]) -> Iterator[Mistake]:
    for index, pool in enumerate(pools):
        seen: set[str] = set()
        for place, window in enumerate(pool.windows):
            if window.id in seen:
                path = ("pools", index, "windows", place, "id")
                yield Mistake(path, f"pool `{pool.id}` has two windows `{window.id}`")
            seen.add(window.id)
            yield from _scope(("pools", index, "windows", place), pool, place)
        if pool.billing == "flat" and not pool.windows:
            yield Mistake(
                ("pools", index), f"flat pool `{pool.id}` needs a window: nothing else bounds its use"
            )


def _scope(path: Path, pool: Pool, place: int) -> Iterator[Mistake]:
    window = pool.windows[place]
    if window.scope is None:
        if window.percent_only:
            said = f"window `{window.id}` needs `scope`: which of the provider's limits it is"
            yield Mistake((*path, "percent_only"), said)
        return
    if window.kind == "rolling":
        said = (
            f"`{window.id}` rolls: what providers tell of limits are periods with a reset, which it has not"
        )
        yield Mistake((*path, "scope"), said)
    for other in pool.windows[:place]:
        if other.scope == window.scope:
            said = f"windows `{other.id}` and `{window.id}` of pool `{pool.id}` have the same `scope`"
            yield Mistake((*path, "scope"), said)


def _targets(settings: Settings) -> Iterator[Mistake]:
    pools = {pool.id for pool in settings.pools}
    for index, target in enumerate(settings.targets):
        if target.pool is not None and target.pool not in pools:
            yield Mistake(("targets", index, "pool"), f"there is no pool `{target.pool}`")
        if target.max_in_flight is not None and target.max_in_flight < settings.gateway.workers:
            said = f"{target.max_in_flight} at once is less than one for each of {settings.gateway.workers} workers"
            yield Mistake(("targets", index, "max_in_flight"), said)
        yield from _target(("targets", index), target)


def _target(path: Path, target: Target) -> Iterator[Mistake]:
    yield from list_mistakes((*path, "prices"), target.id, target.prices)
    for place, price in enumerate(target.prices):
        for name in ("input_uncached", "output"):
            if getattr(price, name) is None:
                where: Path = (*path, "prices", place)
                yield Mistake(where, f"`{name}` is missing: without it no answer of `{target.id}` has a cost")
    yield from _addresses(path, target)
    for place, dialect in enumerate(target.also_speaks):
        if dialect == target.dialect or dialect in target.also_speaks[:place]:
            yield Mistake((*path, "also_speaks", place), f"`{target.id}` speaks `{dialect}` already")
    yield from _quirks((*path, "quirks"), target)
    for name in target.forward_headers:
        if name in _NEVER_FORWARDED:
            yield Mistake((*path, "forward_headers"), f"`{name}` is never forwarded")


def _weights(settings: Settings) -> Iterator[Mistake]:
    """Windows of requests count in whole ones: a part of one would have to count as one, and the plan lie idle."""
    windows = {pool.id: [each for each in pool.windows if each.unit == "requests"] for pool in settings.pools}
    for index, target in enumerate(settings.targets):
        for window in windows.get(target.pool_id, ()):
            hours = [1.0, *(peak.weight for peak in window.peaks)]
            parts = [weight * target.quota_weight for weight in hours]
            odd = next((part for part in parts if part != int(part)), None)
            if odd is not None:
                said = (
                    f"a request of `{target.id}` would count {odd:g} times in window `{window.id}`, which counts"
                    " requests: multiply its limit and every weight of its pool until all are whole numbers"
                )
                yield Mistake(("targets", index, "quota_weight"), said)


def _quirks(path: Path, target: Target) -> Iterator[Mistake]:
    from tidegate.gateway.dialects.quirks import Quirks

    try:
        msgspec.convert(target.quirks, Quirks)
    except msgspec.ValidationError as error:
        known = ", ".join(Quirks.__struct_fields__)
        yield Mistake(path, f"quirks of `{target.id}`: {error}; known: {known}")


def _addresses(path: Path, target: Target) -> Iterator[Mistake]:
    # Here, because roles without targets need no HTTP client.
    from tidegate.gateway.outbound.faults import TargetInvalid
    from tidegate.gateway.outbound.origin import OriginPolicy, parse_base
    from tidegate.gateway.outbound.tunnel import Proxy

    proxy = None
    if target.proxy is not None:
        try:
            proxy = Proxy.parse(target.proxy)
        except TargetInvalid as error:
            yield Mistake((*path, "proxy"), f"`proxy` of `{target.id}`: {error}")
    elif target.proxy_secret is not None:
        yield Mistake((*path, "proxy_secret"), f"`{target.id}` has a `proxy_secret` and no `proxy`")
    try:
        parse_base(target.base_url, OriginPolicy(allow_private=target.allow_private, proxy=proxy))
    except TargetInvalid as error:
        yield Mistake((*path, "base_url"), f"`base_url` of `{target.id}`: {error}")
    yield from _absolute((*path, "ca_file"), target.ca_file)


def _absolute(path: Path, file: str | None) -> Iterator[Mistake]:
    if file is not None and not file.startswith("/"):
        yield Mistake(path, "must be an absolute path: each process has a working folder of its own")


def _routes(settings: Settings) -> Iterator[Mistake]:
    targets = {target.id for target in settings.targets}
    for index, route in enumerate(settings.routes):
        if not route.candidates:
            yield Mistake(("routes", index), f"route `{route.name}` has no candidates")
        seen: set[str] = set()
        for place, candidate in enumerate(route.candidates):
            path: Path = ("routes", index, "candidates", place, "target")
            if candidate.target not in targets:
                yield Mistake(path, f"there is no target `{candidate.target}`")
            if candidate.target in seen:
                yield Mistake(path, f"route `{route.name}` names `{candidate.target}` twice")
            seen.add(candidate.target)


def _log(log: LogSettings) -> Iterator[Mistake]:
    if log.kind == "kafka" and not log.bootstrap:
        yield Mistake(("log",), "`bootstrap` is missing: a Kafka log needs host:port")
    for broker in [] if log.bootstrap is None else log.bootstrap.split(","):
        if _BROKER.fullmatch(broker.strip()) is None or int(broker.rpartition(":")[2]) > 65_535:
            yield Mistake(("log", "bootstrap"), "must be host:port, several of them with commas between")
            break
    if log.sasl is not None:
        for name in ("username", "password"):
            if getattr(log, name) is None:
                yield Mistake(("log",), f"`{name}` is missing: SASL needs it")
    elif log.username is not None or log.password is not None:
        yield Mistake(
            ("log",), "`username` and `password` need `sasl`: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
        )
    if log.ca_file is not None and not log.tls:
        yield Mistake(("log", "ca_file"), "needs `tls = true`")
    yield from _absolute(("log", "ca_file"), log.ca_file)


def secret_places(settings: Settings) -> Iterator[tuple[Path, str]]:
    """Every place of a config that names a secret, with what stands there."""
    single: tuple[tuple[Path, str | None], ...] = (
        (("data_key",), settings.data_key),
        (("log", "password"), settings.log.password),
        (("admin", "token"), settings.admin.token),
        (("metrics", "token"), settings.metrics.token),
    )
    for path, reference in single:
        if reference is not None:
            yield path, reference
    for index, target in enumerate(settings.targets):
        for name, reference in (("secret", target.secret), ("proxy_secret", target.proxy_secret)):
            if reference is not None:
                yield ("targets", index, name), reference


def _references(settings: Settings) -> Iterator[Mistake]:
    for path, reference in secret_places(settings):
        if not is_reference(reference):
            yield Mistake(path, NO_REFERENCE)
