"""Routes as `GET /v1/models` tells them: what all targets of a route can do, and what any of them can. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.events.config import Route, Target
from tidegate.events.types import Dialect, TargetId
from tidegate.gateway.credentials import Principal
from tidegate.gateway.errors import GatewayError
from tidegate.gateway.serving import Serving

MAX_PAGE = 1_000
Switches = Mapping[TargetId, bool]
"""Kill-switches in force: True closes a target, False opens one that the config disables."""
_EPOCH = "1970-01-01T00:00:00Z"
_FLAGS = ("vision", "documents", "tools", "reasoning")
_SIZES = ("context_window", "max_output_tokens")


def listed(
    serving: Serving, switches: Switches, principal: Principal, dialect: Dialect, page: dict[str, str]
) -> dict[str, Any]:
    """The routes a key may use, in the vendor's shape; `page` is `limit`, `after_id`, `before_id` of Anthropic's.

    Raises GatewayError(body_invalid) for a `limit` that is none.
    """
    entries = [_entry(route, targets, dialect) for route, targets in _visible(serving, switches, principal)]
    if dialect != "anthropic":
        return {"object": "list", "data": entries}
    data, has_more = _page(entries, page)
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"data": data, "has_more": has_more, "first_id": first, "last_id": last}


def one(
    serving: Serving, switches: Switches, principal: Principal, dialect: Dialect, name: str
) -> dict[str, Any]:
    """One route. Raises GatewayError(route_unknown), also for one that the key may not use or nobody serves."""
    for route, targets in _visible(serving, switches, principal):
        if route.name == name:
            return _entry(route, targets, dialect)
    raise GatewayError("route_unknown", f"There is no route {name!r} here.")


def capabilities(targets: Sequence[Target]) -> dict[str, dict[str, Any]]:
    """Per capability what `all` targets share and the most that `any` has; null = some, or all, do not say."""
    found: dict[str, dict[str, Any]] = {}
    for name in _SIZES:
        sizes = [getattr(target, name) for target in targets]
        known = [size for size in sizes if size is not None]
        shared = min(known) if known and len(known) == len(sizes) else None
        found[name] = {"all": shared, "any": max(known, default=None)}
    for name in _FLAGS:
        flags = [bool(getattr(target, name)) for target in targets]
        found[name] = {"all": all(flags), "any": any(flags)}
    found["input_modalities"] = _sets([_inputs(target) for target in targets])
    found["dialects"] = _sets([{target.dialect, *target.also_speaks} for target in targets])
    return found


def _inputs(target: Target) -> set[str]:
    return {"text"} | ({"image"} if target.vision else set()) | ({"document"} if target.documents else set())


def _sets(each: Sequence[set[Any]]) -> dict[str, list[str]]:
    return {"all": sorted(set.intersection(*each)), "any": sorted(set.union(*each))}


def _visible(serving: Serving, switches: Switches, principal: Principal) -> list[tuple[Route, list[Target]]]:
    """Routes the key may use, each with the targets that its config and the kill-switches leave open."""
    found: list[tuple[Route, list[Target]]] = []
    for route in serving.routes.values():
        targets = [serving.targets[candidate.target].config for candidate in route.candidates]
        targets = [target for target in targets if not switches.get(target.id, not target.enabled)]
        if targets and principal.may_use(route.name):
            found.append((route, targets))
    return found


def _entry(route: Route, targets: Sequence[Target], dialect: Dialect) -> dict[str, Any]:
    can = capabilities(targets)
    if dialect != "anthropic":
        return {
            "id": route.name,
            "object": "model",
            "created": 0,
            "owned_by": "tidegate",
            "tidegate": {"capabilities": can},
        }
    return {
        "type": "model",
        "id": route.name,
        "display_name": route.name,
        "created_at": _EPOCH,
        "lifecycle": "active",
        "max_input_tokens": can["context_window"]["all"],
        "max_tokens": can["max_output_tokens"]["all"],
        "tidegate": {"capabilities": can},
    }


def _page(entries: list[dict[str, Any]], page: dict[str, str]) -> tuple[list[dict[str, Any]], bool]:
    limit = page.get("limit", str(MAX_PAGE))
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 4 and 1 <= int(limit) <= MAX_PAGE):
        raise GatewayError("body_invalid", f"`limit` must be from 1 to {MAX_PAGE}.", param="limit")
    size = int(limit)
    places = {entry["id"]: place for place, entry in enumerate(entries)}
    before = places.get(page.get("before_id", ""))
    if before is not None:
        start = max(0, before - size)
        return entries[start:before], start > 0
    start = places.get(page.get("after_id", ""), -1) + 1
    return entries[start : start + size], start + size < len(entries)
