"""The kill-switch that works while the log is down: on each gateway's own socket, recorded, replayed later."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tidegate.events.types import TargetId
from tidegate.planner.follower import Follower
from tidegate.runtime.machine import Machine
from tidegate.runtime.telemetry import logger

SUFFIX = ".switch"
MAX_REQUEST_BYTES = 65_536
TIMEOUT_S = 2.0
HOLD_EVERY_S = 0.2


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One switch, as it goes over the socket and stands in a file until it is in the log."""

    target: TargetId
    disabled: bool
    actor: str
    reason: str = ""


def _state(disabled: bool) -> str:
    return "disabled" if disabled else "enabled"


def folder_of(machine: Machine) -> Path:
    """Where orders wait for the log."""
    return machine.data_dir / "switches"


class LocalSwitch:
    """A gateway's switch socket."""

    def __init__(self, machine: Machine, slot: str, follower: Follower) -> None:
        self._machine = machine
        self._path = machine.run_dir / f"{slot}{SUFFIX}"
        self._follower = follower

    async def run(self) -> None:
        """Serve until cancelled, and keep recorded orders in force until they are in the log.

        The first step, before anything is awaited, puts those in force that were given before this process
        began. Later ones overtake what the log still says of a target.
        """
        self._hold(waiting(self._machine))
        await asyncio.to_thread(self._path.unlink, missing_ok=True)
        server = await asyncio.start_unix_server(self._answer, path=str(self._path))
        try:
            await asyncio.to_thread(self._path.chmod, 0o600)
            while True:
                await asyncio.sleep(HOLD_EVERY_S)
                self._hold(await asyncio.to_thread(waiting, self._machine))
        finally:
            server.close()
            self._path.unlink(missing_ok=True)

    def _hold(self, recorded: Iterable[tuple[Path, Order]]) -> None:
        view = self._follower.view
        known = {target.id for target in view.routing.targets}
        for target, disabled in {order.target: order.disabled for _, order in recorded}.items():
            if target in known and view.switches.get(target, False) is not disabled:
                self._follower.switch(target, disabled=disabled)
                logger().warning("recorded switch in force", target=target, state=_state(disabled))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer: dict[str, Any] = {"ok": True}
        try:
            async with asyncio.timeout(TIMEOUT_S):
                order = msgspec.json.decode(await reader.read(MAX_REQUEST_BYTES), type=Order)
            known = {target.id for target in self._follower.view.routing.targets}
            if order.target in known:
                self._follower.switch(order.target, disabled=order.disabled)
                logger().warning("local switch", target=order.target, state=_state(order.disabled))
            else:
                answer = {"ok": False, "refused": True, "error": f"there is no target {order.target}"}
        except (msgspec.DecodeError, TimeoutError) as error:
            answer = {"ok": False, "error": str(error)}
        writer.write(msgspec.json.encode(answer))
        await writer.drain()
        writer.close()


async def throw(machine: Machine, order: Order) -> dict[str, dict[str, Any]]:
    """Give the order to every running gateway of this machine, then leave it for the log, and for gateways that
    start meanwhile. Answers by slot. An order for a target that no gateway knows is not left: it was a slip.
    """
    answers: dict[str, dict[str, Any]] = {}
    for path in sorted(await asyncio.to_thread(lambda: list(machine.run_dir.glob(f"*{SUFFIX}")))):
        try:
            async with asyncio.timeout(TIMEOUT_S):
                reader, writer = await asyncio.open_unix_connection(str(path))
                writer.write(msgspec.json.encode(order))
                writer.write_eof()
                answers[path.stem] = msgspec.json.decode(await reader.read())
                writer.close()
        except (OSError, TimeoutError, msgspec.DecodeError) as error:
            answers[path.stem] = {"ok": False, "error": type(error).__name__}
    refused = [said.get("refused", False) for said in answers.values()]
    if not refused or not all(refused):
        await asyncio.to_thread(_record, machine, order)
    return answers


def _record(machine: Machine, order: Order) -> None:
    folder = folder_of(machine)
    folder.mkdir(parents=True, exist_ok=True)
    newest = max((path.stem for path in folder.glob("*.json")), default="")
    name = machine.ids.next()
    if name <= newest:  # the clock was set back: an order is still later than the one before it
        name = f"{newest}~"
    aside = folder / f"{name}.new"
    aside.write_bytes(msgspec.json.encode(order))
    aside.replace(aside.with_suffix(".json"))


def waiting(machine: Machine) -> list[tuple[Path, Order]]:
    """Orders that are not in the log yet, oldest first. A file that is none is set aside and named, once."""
    found: list[tuple[Path, Order]] = []
    for path in sorted(folder_of(machine).glob("*.json")):
        try:
            found.append((path, msgspec.json.decode(path.read_bytes(), type=Order)))
        except FileNotFoundError:
            continue  # it has just gone into the log
        except (OSError, msgspec.DecodeError):
            with suppress(OSError):
                path.replace(path.with_suffix(".unreadable"))
                logger().error("a recorded switch cannot be read", path=str(path))
    return found
