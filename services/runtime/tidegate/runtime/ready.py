"""Whether this machine can run what a config says: secrets, CA files, socket paths, and what the log holds of it.

All of it is asked before a socket is bound, so that a mistake is told once and not by a process that starts
over and over.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping

from tidegate.events.config import LogSettings, Settings, Target
from tidegate.events.errors import LogUnavailable, Unavailable
from tidegate.runtime.checks import secret_places
from tidegate.runtime.machine import MAX_SOCKET_PATH_BYTES, Machine, data_key_of
from tidegate.runtime.published import identity_mistakes, published_configs
from tidegate.runtime.references import is_reference
from tidegate.runtime.settings import ConfigInvalid, resolve_secret, secret_bytes
from tidegate.runtime.toml_lines import Path as Place
from tidegate.runtime.validation import BAD, Mistake, as_far_as_read, needed

TABLES_OF = {
    "gateway": frozenset({"targets", "data_key", "log"}),
    "log": frozenset({"log", "metrics"}),
    "estimator": frozenset({"log"}),
    "projector": frozenset({"log"}),
    "admin": frozenset({"admin", "log"}),
}
"""Which tables' secrets and CA files each role needs: a pod that serves nobody holds no provider's credential."""
ALL_TABLES = frozenset[str]().union(*TABLES_OF.values())
LOOK_DEADLINE_S = 5.0
MIN_TOKEN_CHARS = 16
"""Of the admin's token: it can switch every target off."""
_SLOTS_OF_ROLES = ("projector.sock", "estimator.metrics", "retention.metrics")


def missing_here(
    settings: Settings, env: Mapping[str, str], tables: frozenset[str], *, secrets: bool = True
) -> list[Mistake]:
    """What the named tables ask of this machine and do not find; nothing secret is in the answer. What is wrong on
    every machine is told by `checks` and not again."""
    found: dict[Place, str] = {}
    mistakes: list[Mistake] = []
    for path, reference in secret_places(settings) if secrets else ():
        if path[0] in tables and is_reference(reference):
            try:
                found[path] = _resolved(path, reference, env)
            except ConfigInvalid as error:
                mistakes += (Mistake(path, said) for said in error.mistakes)
    if "targets" in tables:
        for index, target in enumerate(() if settings.targets is BAD else settings.targets):
            mistakes += _authorities(("targets", index, "ca_file"), target.ca_file)
            where: Place = ("targets", index, "proxy_secret")
            mistakes += _proxy_secret(where, target, found.get(where))
    if "log" in tables:
        mistakes += _log(settings.log)
    return mistakes


def _resolved(path: Place, reference: str, env: Mapping[str, str]) -> str:
    if path == ("data_key",):
        data_key_of(secret_bytes(reference, env, "not usable"), reference)
        return ""
    secret = resolve_secret(reference, env, "not usable")
    if path == ("admin", "token") and len(secret) < MIN_TOKEN_CHARS:
        raise ConfigInvalid([f"fewer than {MIN_TOKEN_CHARS} characters behind {reference}"])
    return secret


@as_far_as_read
def _authorities(path: Place, file: str | None) -> Iterator[Mistake]:
    # Here, because roles without targets need no HTTP client.
    from tidegate.gateway.outbound.dial import tls_context

    if file is not None and file.startswith("/"):
        try:
            tls_context(file)
        except OSError as error:
            yield Mistake(path, _unusable(file, error))


@as_far_as_read
def _proxy_secret(path: Place, target: Target, secret: str | None) -> Iterator[Mistake]:
    from tidegate.gateway.outbound.faults import TargetInvalid
    from tidegate.gateway.outbound.tunnel import Proxy

    needed(target.proxy)
    if target.proxy is None or secret is None:
        return
    try:
        Proxy.parse(target.proxy)
    except TargetInvalid:
        return
    try:
        Proxy.parse(target.proxy, secret)
    except TargetInvalid as error:
        yield Mistake(path, str(error))


@as_far_as_read
def _log(log: LogSettings) -> Iterator[Mistake]:
    if log.kind == "kafka" and log.ca_file is not None and log.ca_file.startswith("/"):
        from tidegate.events.log.kafka_settings import tls_context

        try:
            tls_context(log.ca_file)
        except OSError as error:
            yield Mistake(("log", "ca_file"), _unusable(log.ca_file, error))


def _unusable(file: str, error: OSError) -> str:
    return f"{file} cannot be used as a list of authorities: {error.strerror or type(error).__name__}"


def socket_mistakes(machine: Machine, slots: tuple[str, ...] = ()) -> list[Mistake]:
    """The data folder when its path is too long for the sockets in it: the system bounds their addresses."""
    names = (*_SLOTS_OF_ROLES, *(f"{slot}.metrics" for slot in slots))
    longest = max((machine.run_dir / name for name in names), key=lambda path: len(os.fsencode(path)))
    over = len(os.fsencode(longest)) - MAX_SOCKET_PATH_BYTES
    if over <= 0:
        return []
    return [Mistake(("data_dir",), f"{longest} is {over} bytes too long for a socket: use a shorter folder")]


async def published_mistakes(machine: Machine) -> list[Mistake]:
    """Where this config gives a published target id to another upstream. Raises Unavailable."""
    log = machine.open_log()
    try:
        async with asyncio.timeout(LOOK_DEADLINE_S):
            published = await published_configs(log)
    except TimeoutError as error:
        raise LogUnavailable(f"the log does not answer in {LOOK_DEADLINE_S:g} s") from error
    finally:
        await log.close()
    return identity_mistakes(published, machine.settings.routing())


async def log_faults(machine: Machine) -> str | None:
    """What the log lacks for any role to work on it; None when nothing, or when it cannot be asked now."""
    if machine.settings.log.kind != "kafka":
        return None
    from tidegate.events.log.kafka_admin import missing_topics

    try:
        missing = await missing_topics(machine.kafka_settings(), LOOK_DEADLINE_S)
    except Unavailable:
        return None
    if not missing:
        return None
    return (
        f"Kafka at {machine.settings.log.bootstrap} lacks {len(missing)} topics: {', '.join(missing)};"
        " create them with `tidegate topics apply`"
    )
