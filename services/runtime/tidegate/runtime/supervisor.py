"""`tidegate serve`: binds sockets once, starts one process per role, restarts what dies, ends in order."""

import asyncio
import fcntl
import os
import socket
import sys
import time
from pathlib import Path
from typing import IO

import msgspec

from tidegate.events.config import GatewaySettings
from tidegate.events.errors import Refused
from tidegate.runtime.machine import Machine
from tidegate.runtime.process import Stopping
from tidegate.runtime.sockets import CannotListen, bound
from tidegate.runtime.telemetry import facts_of, logger

BACKOFF_S = 0.2
BIND_RETRY_S = 0.05
BACKOFF_MAX_S = 5.0
STEADY_S = 10.0
STOP_ORDER = ("gateway", "log", "estimator", "projector", "admin")
ORPHANS_END_S = 5.0
"""How long roles of a killed supervisor may take to let go of the ports."""
STOP_GRACE_S = 40.0
"""Besides what a gateway is configured to wait for its streams."""


def stop_grace_s(role: str, gateway: GatewaySettings) -> float:
    """How long a role may take to end after TERM before it is killed, seconds."""
    return STOP_GRACE_S + (gateway.drain_delay_s + gateway.drain_grace_s if role == "gateway" else 0.0)


class AlreadyServed(Refused):
    """Another process serves from this data folder; the message names it."""

    code = "already_served"


class ChildSpec(msgspec.Struct, frozen=True):
    """One process: role, slot, extra arguments, descriptors it inherits."""

    role: str
    slot: str
    arguments: tuple[str, ...] = ()
    fds: tuple[int, ...] = ()


class Child:
    """A role's process, started again with growing pauses when it dies unasked."""

    def __init__(self, spec: ChildSpec, config: Path, parent_fd: int) -> None:
        self.spec = spec
        self._config = config
        self._parent_fd = parent_fd
        self._process: asyncio.subprocess.Process | None = None
        self.restarts = 0
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    async def keep_running(self) -> None:
        """Until stopped: start, wait, start again."""
        loop = asyncio.get_running_loop()
        backoff_s = BACKOFF_S
        while not self._stopping:
            began = loop.time()
            try:
                code = await self._run_once()
            except OSError as error:  # no memory or no process left just now
                logger().error("role cannot be started", **facts_of(error))
                code = None
            if self._stopping:
                return
            backoff_s = BACKOFF_S if loop.time() - began > STEADY_S else min(backoff_s * 2, BACKOFF_MAX_S)
            self.restarts += 1
            logger().warning(
                "role ended, starting it again",
                state=f"{self.spec.role}/{self.spec.slot}",
                exit_code=code,
                backoff_s=backoff_s,
            )
            await asyncio.sleep(backoff_s)

    async def _run_once(self) -> int:
        spec = self.spec
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tidegate.runtime",
            spec.role,
            "--config",
            str(self._config),
            "--parent-fd",
            str(self._parent_fd),
            *spec.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=(self._parent_fd, *spec.fds),
            # A Ctrl-C at the terminal is for us: children are ended in order, not all at once.
            start_new_session=True,
        )
        if self._stopping:  # it was asked to end while it was being started
            self._process.terminate()
        return await self._process.wait()

    def stop(self) -> None:
        """TERM; it is not started again, also when it was just about to be."""
        self._stopping = True
        if self.pid is not None and self._process is not None:
            self._process.terminate()

    async def ended(self, grace_s: float) -> None:
        """Wait for its end after `stop`, then KILL."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        try:
            async with asyncio.timeout(grace_s):
                await process.wait()
        except TimeoutError:
            logger().error("role did not end in time", state=f"{self.spec.role}/{self.spec.slot}")
            process.kill()
            await process.wait()


class Supervisor:
    """All roles of one machine."""

    def __init__(self, machine: Machine, config: Path) -> None:
        self._machine = machine
        self._config = config
        self.children: list[Child] = []
        self._sockets: dict[str, socket.socket] = {}
        """By the role that serves them. Kept, because a role that is started again is given its own anew."""
        self._taken: IO[bytes] | None = None
        self.tenant_port = 0
        self.admin_port = 0

    def bind(self) -> None:
        """Take the data folder for this process, then bind the tenant and the admin listener.

        Raises AlreadyServed naming the folder, CannotListen naming the address.
        """
        settings = self._machine.settings
        self._taken = _take(self._machine.data_dir)
        # A supervisor that ends in order takes this file away: else its roles may hold the ports a moment longer.
        free_by_s = time.monotonic() + (ORPHANS_END_S if self._state_path.exists() else 0.0)
        try:
            for role, place in (("gateway", settings.gateway), ("admin", settings.admin)):
                self._sockets[role] = _bound_by(free_by_s, place.host, place.port)
        except CannotListen:
            self.close()
            raise
        self.tenant_port, self.admin_port = (each.getsockname()[1] for each in self._sockets.values())

    def close(self) -> None:
        """Let go of the ports and of the data folder."""
        for listening in self._sockets.values():
            listening.close()
        if self._taken is not None:
            self._taken.close()

    async def run(self, stopping: Stopping) -> None:
        """Start every role and keep it running until told to stop; then end them in order."""
        read_fd, write_fd = os.pipe()
        os.set_inheritable(read_fd, True)
        tenant, admin = self._sockets["gateway"], self._sockets["admin"]
        specs = [
            ChildSpec("log", "log"),
            ChildSpec("estimator", "estimator"),
            ChildSpec("projector", "projector"),
            ChildSpec("admin", "admin", ("--fd", str(admin.fileno())), (admin.fileno(),)),
        ]
        gateway = self._machine.settings.gateway
        for index in range(gateway.workers):
            slot = f"{gateway.slot}-{index}"
            arguments = ("--slot", slot, "--fd", str(tenant.fileno()))
            specs.append(ChildSpec("gateway", slot, arguments, (tenant.fileno(),)))
        self.children = [Child(spec, self._config, read_fd) for spec in specs]
        self._write_state()
        try:
            async with asyncio.TaskGroup() as tasks:
                for child in self.children:
                    tasks.create_task(child.keep_running())
                await stopping.event.wait()
                await self._stop_in_order()
        finally:
            self._state_path.unlink(missing_ok=True)
            os.close(write_fd)
            os.close(read_fd)
            self.close()

    async def _stop_in_order(self) -> None:
        for role in STOP_ORDER:
            children = [child for child in self.children if child.spec.role == role]
            for child in children:
                child.stop()
            if role in self._sockets:
                # Once the role closes its own, connections are refused and clients go elsewhere: as long as we
                # held ours the kernel would take them in for nobody.
                self._sockets[role].close()
            grace_s = stop_grace_s(role, self._machine.settings.gateway)
            await asyncio.gather(*(child.ended(grace_s) for child in children))

    def _write_state(self) -> None:
        state = {"pid": os.getpid(), "tenant_port": self.tenant_port, "admin_port": self.admin_port}
        aside = self._state_path.with_suffix(".new")
        aside.write_bytes(msgspec.json.encode(state))
        aside.replace(self._state_path)

    @property
    def _state_path(self) -> Path:
        return self._machine.run_dir / "serve.json"


def _bound_by(free_by_s: float, host: str, port: int) -> socket.socket:
    """Bind, again and again until the monotonic time `free_by_s`. Raises CannotListen."""
    while True:
        try:
            return bound(host, port)
        except CannotListen:
            if time.monotonic() >= free_by_s:
                raise
            time.sleep(BIND_RETRY_S)


def _take(data_dir: Path) -> IO[bytes]:
    """The lock of a data folder, held until this process ends. Raises AlreadyServed."""
    file = (data_dir / "serve.lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise AlreadyServed(f"another `tidegate serve` runs on {data_dir}: end it first") from error
    return file
