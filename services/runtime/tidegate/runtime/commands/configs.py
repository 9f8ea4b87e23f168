"""`config check|schema` and `keys new`."""

import secrets

import msgspec
import typer

from tidegate.events.config import Settings
from tidegate.runtime.commands.shared import (
    FINDING,
    ConfigOption,
    JsonOption,
    config_path,
    fail,
    print_json,
    say,
    settings_at,
)
from tidegate.runtime.settings import ConfigInvalid, environment, load_settings, resolve_secrets

config_app = typer.Typer(no_args_is_help=True, help="Check and describe the config.")
keys_app = typer.Typer(no_args_is_help=True, help="API keys.")


@config_app.command()
def check(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Every mistake of the config at once, secrets included; exit code 1 when there is one."""
    path = config_path(config)
    mistakes: list[str] = []
    digest = None
    try:
        settings = load_settings(path)
        digest = settings.routing().digest()
        resolve_secrets(settings.targets, environment())
    except ConfigInvalid as error:
        mistakes = error.mistakes
    if json:
        print_json({"config": str(path), "ok": not mistakes, "mistakes": mistakes, "digest": digest})
    elif mistakes:
        fail("\n".join(mistakes), FINDING)
    else:
        say(f"{path} is good; routing digest {digest}")
    if mistakes:
        raise typer.Exit(FINDING)


@config_app.command()
def schema() -> None:
    """JSON Schema of the config file."""
    print_json(msgspec.json.schema(Settings))


@keys_app.command()
def new(key_id: str, tenant: str, json: JsonOption = False) -> None:
    """Make an API key: shown once here; the config keeps only its digest."""
    from tidegate.gateway.credentials import key_digest, key_text

    key = key_text(secrets.token_bytes(32))
    digest = key_digest(key)
    if json:
        print_json({"id": key_id, "tenant": tenant, "key": key, "digest": digest})
        return
    say(f"key (give it to the tenant, it is not shown again): {key}")
    say(f'\n[[keys]]\nid = "{key_id}"\ntenant = "{tenant}"\ndigest = "{digest}"')


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
