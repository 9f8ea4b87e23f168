"""`targets list|disable|enable`: the kill-switch, through admin, or locally while the log is down."""

import asyncio
import getpass
import os
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tidegate.runtime.commands.shared import (
    FINDING,
    ConfigOption,
    JsonOption,
    fail,
    machine_of,
    print_json,
    reason_of,
    say,
)

if TYPE_CHECKING:
    import httpx

    from tidegate.runtime.machine import Machine

targets_app = typer.Typer(no_args_is_help=True, help="Upstream targets and their kill-switches.")
LocalOption = Annotated[
    bool, typer.Option("--local", help="Tell this machine's gateways directly; replayed to the log later.")
]
ReasonOption = Annotated[str, typer.Option(help="Recorded with the switch.")]


@targets_app.command(name="list")
def list_targets(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Targets of the config: id, pool, dialect, model."""
    machine, _ = machine_of(config)
    rows = [
        {"id": target.id, "pool": target.pool_id, "dialect": target.dialect, "model": target.model}
        for target in machine.settings.targets
    ]
    if json:
        print_json(rows)
        return
    for row in rows:
        say("  ".join(str(value) for value in row.values()))


@targets_app.command()
def disable(
    target: str,
    config: ConfigOption = None,
    reason: ReasonOption = "",
    local: LocalOption = False,
    json: JsonOption = False,
) -> None:
    """Use the target no more, everywhere, within a second."""
    _switch(target, config, reason, disabled=True, local=local, json=json)


@targets_app.command()
def enable(
    target: str,
    config: ConfigOption = None,
    reason: ReasonOption = "",
    local: LocalOption = False,
    json: JsonOption = False,
) -> None:
    """Use the target again."""
    _switch(target, config, reason, disabled=False, local=local, json=json)


def _switch(target: str, config: Any, reason: str, *, disabled: bool, local: bool, json: bool) -> None:
    from tidegate.events.types import TargetId
    from tidegate.runtime.local_switch import Order, throw

    machine, _ = machine_of(config)
    if local:
        order = Order(target=TargetId(target), disabled=disabled, actor=_actor(), reason=reason)
        answer: Any = asyncio.run(throw(machine, order))
        if not answer:
            fail("no gateway is running here: those that start will take it", FINDING)
        failed = {slot: said.get("error") for slot, said in answer.items() if not said["ok"]}
        if failed:
            said = ", ".join(f"{slot} ({why})" for slot, why in failed.items())
            fail(f"not every gateway took it: {said}", FINDING)
    else:
        answer = _through_admin(machine, target, "disable" if disabled else "enable", reason)
    if json:
        print_json(answer)
    else:
        say(f"{target} is {'disabled' if disabled else 'enabled'}")


def _detail(answer: "httpx.Response") -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200]


def _actor() -> str:
    """Who is at the keyboard; a container's user may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


class _Serving(msgspec.Struct):
    """What `tidegate serve` leaves of itself."""

    admin_port: int


def _admin_port(machine: "Machine") -> int:
    """The one that `tidegate serve` has bound here, else the config's."""
    state = machine.run_dir / "serve.json"
    try:
        return msgspec.json.decode(state.read_bytes(), type=_Serving).admin_port
    except FileNotFoundError:
        return machine.settings.admin.port
    except (OSError, msgspec.DecodeError) as error:
        fail(f"{state} cannot be read: {reason_of(error)}")


def _through_admin(machine: "Machine", target: str, action: str, reason: str) -> Any:
    import httpx

    from tidegate.runtime.admin_token import admin_token
    from tidegate.runtime.settings import ConfigInvalid

    if machine.settings.admin.token is None and not machine.admin_token_path.exists():
        fail(
            f"there is no {machine.admin_token_path}: no admin has ever run on this data folder;"
            " is `tidegate serve` running with this config? --local tells this machine's gateways"
        )
    host, port = machine.settings.admin.host, _admin_port(machine)
    try:
        answer = httpx.post(
            f"http://{host}:{port}/admin/targets/{target}/{action}",
            params={"reason": reason},
            headers={"authorization": f"Bearer {admin_token(machine)}"},
            timeout=10,
            trust_env=False,
        )
    except (httpx.HTTPError, ConfigInvalid) as error:
        fail(f"admin does not answer ({type(error).__name__}): use --local on each machine")
    if answer.status_code != 200:
        fail(f"admin says {answer.status_code}: {_detail(answer)}")
    return answer.json()
