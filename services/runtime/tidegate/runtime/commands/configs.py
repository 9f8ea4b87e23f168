"""`config check|schema` and `keys new`."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_bytes
from typing import Annotated

import msgspec
import typer

from tidegate.events.config import KeyName, Settings
from tidegate.events.errors import TidegateError
from tidegate.runtime.commands.shared import (
    FINDING,
    ConfigOption,
    JsonOption,
    absolute,
    config_path,
    fail,
    print_json,
    say,
    settings_at,
    tell,
)
from tidegate.runtime.machine import Machine
from tidegate.runtime.settings import ConfigInvalid, environment, examined, find_config, load_settings
from tidegate.runtime.validation import NotRead

_LOG_IS = frozenset[tuple[str | int, ...]]({("log",), ("data_dir",), ("targets",)})
"""Tables that must be right before the log can be asked what it has of the targets."""
NAME_RULE = "letters, digits and . _ : / @ + -, a letter or digit first, at most 128"

config_app = typer.Typer(no_args_is_help=True, help="Check and describe the config.")
keys_app = typer.Typer(no_args_is_help=True, help="API keys.")


@config_app.command()
def check(
    config: ConfigOption = None,
    json: JsonOption = False,
    secrets: Annotated[
        bool, typer.Option("--secrets/--no-secrets", help="Whether every secret must be at hand here.")
    ] = True,
) -> None:
    """Every mistake of the config at once: secrets and CA files of this machine, and targets that the log knows
    otherwise under their id, included. Exit code 1 when there is one, 2 when the file cannot be read."""
    path = absolute(config_path(config))
    try:
        path.read_bytes()
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}")
    mistakes: list[str] = []
    digest, not_compared = None, None
    try:
        digest, not_compared = _checked(path, secrets=secrets)
    except ConfigInvalid as error:
        mistakes = error.mistakes
    if json:
        answer = {"config": str(path), "ok": not mistakes, "mistakes": mistakes, "digest": digest}
        print_json({**answer, "not_compared": not_compared})
    elif not mistakes:
        say(f"{path} is good; routing digest {digest}")
        if not_compared is not None:
            say(f"it was not compared with the published config: {not_compared}")
    else:
        fail("\n".join(mistakes), FINDING)
    if mistakes:
        raise typer.Exit(FINDING)


def _checked(path: Path, *, secrets: bool) -> tuple[str, str | None]:
    """Digest, and why the config was not compared with the published one. Raises ConfigInvalid."""
    from tidegate.runtime.ready import ALL_TABLES, missing_here, published_mistakes, socket_mistakes

    file = examined(path)
    mistakes = [*file.mistakes, *missing_here(file.settings, environment(), ALL_TABLES, secrets=secrets)]
    not_compared = None
    with suppress(NotRead):
        machine = Machine(file.settings, base=path.parent)
        mistakes += socket_mistakes(machine)
        if _LOG_IS.isdisjoint(mistake.path[:1] for mistake in file.mistakes):
            try:
                mistakes += asyncio.run(published_mistakes(machine))
            except TidegateError as error:
                not_compared = str(error)
    if mistakes:
        raise file.invalid(mistakes)
    return file.settings.routing().digest(), not_compared


@config_app.command()
def schema(
    json: Annotated[bool, typer.Option("--json", help="As without: the schema is JSON.")] = False,
) -> None:
    """JSON Schema of the config file."""
    _ = json
    print_json(msgspec.json.schema(Settings))


@keys_app.command()
def new(key_id: str, tenant: str, config: ConfigOption = None, json: JsonOption = False) -> None:
    """Make an API key: shown once here; the config keeps only its digest. What the config that is found says
    against it is told, so that `config check` will not be the first to."""
    from tidegate.gateway.credentials import key_digest, key_text

    key = key_text(token_bytes(32))
    digest = key_digest(key)
    for name, value in (("KEY_ID", key_id), ("TENANT", tenant)):
        try:
            msgspec.convert(value, KeyName)
        except msgspec.ValidationError:
            fail(f"{name} `{value}`: {NAME_RULE}")
    for said in _against(config, key_id, tenant):
        tell(said)
    if json:
        print_json({"id": key_id, "tenant": tenant, "key": key, "digest": digest})
        return
    say(f"key (give it to the tenant, it is not shown again): {key}")
    say(f'\n[[keys]]\nid = "{key_id}"\ntenant = "{tenant}"\ndigest = "{digest}"')


def _against(given: Path | None, key_id: str, tenant: str) -> Iterator[str]:
    """Why this config would refuse the key. A first key may be made before there is any config."""
    try:
        path = find_config(given, environment(), Path.cwd(), Path.home())
        settings = load_settings(path)
    except ConfigInvalid as error:
        if given is not None:
            fail(str(error))
        return
    if tenant not in {known.id for known in settings.tenants}:
        yield f"{path} has no tenant `{tenant}` yet: add [[tenants]], or `config check` refuses the key"
    if key_id in {known.id for known in settings.keys}:
        yield f"{path} has a key `{key_id}` already: replace it, or `config check` refuses the second one"


@keys_app.command(name="list")
def list_keys(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Keys of the config, by id, tenant and routes."""
    settings = settings_at(config_path(config))
    rows = [{"id": key.id, "tenant": key.tenant, "routes": key.routes} for key in settings.keys]
    if json:
        print_json(rows)
        return
    for row in rows:
        routes = "all routes" if row["routes"] is None else ", ".join(row["routes"])
        say(f"{row['id']}  {row['tenant']}  {routes}")
