"""What types can not say of a config: references, duplicates, prices in order, headers not to forward. Pure."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from tidegate.events.config import Pool, Settings, Target
from tidegate.runtime.toml_lines import Path
from tidegate.runtime.validation import Mistake

_NEVER_FORWARDED = frozenset({"x-api-key", "x-tidegate-attempt-id", "x-forwarded-for", "x-forwarded-host"})


def find_mistakes(settings: Settings) -> list[Mistake]:
    """Every mistake between the parts of a config whose types are right."""
    return [
        *_duplicates("tenants", (tenant.id for tenant in settings.tenants)),
        *_duplicates("keys", (key.id for key in settings.keys)),
        *_duplicates("keys", (key.digest for key in settings.keys), field="digest"),
        *_duplicates("pools", (pool.id for pool in settings.pools)),
        *_duplicates("targets", (target.id for target in settings.targets)),
        *_duplicates("routes", (route.name for route in settings.routes), field="name"),
        *_keys(settings),
        *_pools(settings.pools),
        *_targets(settings),
        *_routes(settings),
        *_log(settings),
    ]


def _duplicates(table: str, ids: Iterable[str], field: str = "id") -> Iterator[Mistake]:
    seen: set[str] = set()
    for index, name in enumerate(ids):
        if name in seen:
            yield Mistake((table, index, field), f"`{name}` is used twice in [[{table}]]")
        seen.add(name)


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
        if pool.billing == "flat" and not pool.windows:
            yield Mistake(
                ("pools", index), f"flat pool `{pool.id}` needs a window: nothing else bounds its use"
            )


def _targets(settings: Settings) -> Iterator[Mistake]:
    pools = {pool.id for pool in settings.pools}
    for index, target in enumerate(settings.targets):
        if target.pool is not None and target.pool not in pools:
            yield Mistake(("targets", index, "pool"), f"there is no pool `{target.pool}`")
        yield from _target(("targets", index), target)


def _target(path: Path, target: Target) -> Iterator[Mistake]:
    starts = [price.from_ns for price in target.prices]
    if starts != sorted(set(starts)):
        yield Mistake((*path, "prices"), f"prices of `{target.id}` must have rising `from` dates")
    if not target.base_url.startswith(("http://", "https://")):
        yield Mistake((*path, "base_url"), f"`base_url` of `{target.id}` must begin with https:// or http://")
    elif target.base_url.startswith("http://") and not target.allow_private:
        yield Mistake((*path, "base_url"), f"`{target.id}` uses plain http: only with allow_private = true")
    for name in target.forward_headers:
        if name in _NEVER_FORWARDED:
            yield Mistake((*path, "forward_headers"), f"`{name}` is never forwarded")
    if target.secret is not None and not target.secret.startswith(("env:", "file:")):
        yield Mistake(
            (*path, "secret"), "a secret is a reference, `env:NAME` or `file:PATH`, never the secret itself"
        )


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


def _log(settings: Settings) -> Iterator[Mistake]:
    if settings.log.kind == "kafka" and not settings.log.bootstrap:
        yield Mistake(("log",), "`bootstrap` is missing: a Kafka log needs host:port")
    token = settings.admin.token
    if token is not None and not token.startswith(("env:", "file:")):
        yield Mistake(("admin", "token"), "a secret is a reference, `env:NAME` or `file:PATH`")
