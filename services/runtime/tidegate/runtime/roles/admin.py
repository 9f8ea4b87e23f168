"""The admin role: its own process, port and credential; publishes config, flips kill-switches, shows metrics."""

import asyncio
import contextlib
import hmac
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, Header, HTTPException, Response

from tidegate.events.errors import TidegateError, Unavailable
from tidegate.events.types import TargetId
from tidegate.runtime import metrics
from tidegate.runtime.admin_token import admin_token
from tidegate.runtime.control import Control
from tidegate.runtime.local_switch import waiting
from tidegate.runtime.machine import Machine
from tidegate.runtime.process import Stopping, kept_up
from tidegate.runtime.published import IdentityChanged
from tidegate.runtime.ready import missing_here
from tidegate.runtime.settings import ConfigInvalid, examined
from tidegate.runtime.sockets import bound, given
from tidegate.runtime.telemetry import logger

PUBLISH_RETRY_S = 1.0


class AdminRole:
    """One admin process."""

    def __init__(self, machine: Machine, config: Path, fd: int | None) -> None:
        self._machine = machine
        self._config = config
        self._fd = fd

    async def run(self, stopping: Stopping) -> None:
        """Publish the file's config if it is new, then serve until told to stop."""
        machine = self._machine
        log = machine.open_log(("control",))
        control = Control(log, machine.clock, machine.ids)
        settings = machine.settings.admin
        listening = bound(settings.host, settings.port) if self._fd is None else given(self._fd)
        config = uvicorn.Config(
            build_app(machine, control, self._config, admin_token(machine)),
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
        )
        server = _Server(config)
        try:
            async with asyncio.TaskGroup() as tasks:
                publishing = tasks.create_task(kept_up("publishing", lambda: self._publish(control)))
                ending = tasks.create_task(_end(server, stopping))
                logger().info("admin serves", port=listening.getsockname()[1])
                await server.serve([listening])
                publishing.cancel()
                ending.cancel()
        finally:
            await log.close()

    async def _publish(self, control: Control) -> None:
        routing = self._machine.settings.routing()
        while True:
            try:
                if await control.publish_if_new(routing, "file"):
                    logger().info("config published", digest=routing.digest())
                break
            except IdentityChanged as error:
                # The log could not be asked before. The published config stays in force; switches still work.
                logger().error("config refused", code=error.code, why=str(error))
                break
            except Unavailable:
                await asyncio.sleep(PUBLISH_RETRY_S)
        while True:
            await asyncio.sleep(PUBLISH_RETRY_S)
            with contextlib.suppress(Unavailable):
                await self._replay_switches(control)

    async def _replay_switches(self, control: Control) -> None:
        """Switches thrown locally while the log was away become events, in their order."""
        for path, order in await asyncio.to_thread(waiting, self._machine):
            await control.switch(
                order.target, disabled=order.disabled, actor=order.actor, reason=order.reason
            )
            await asyncio.to_thread(path.unlink)


class _Server(uvicorn.Server):
    def install_signal_handlers(self) -> None:
        """Signals are ours."""

    def capture_signals(self) -> Any:
        """Signals are ours."""
        return contextlib.nullcontext()


async def _end(server: uvicorn.Server, stopping: Stopping) -> None:
    await stopping.event.wait()
    server.should_exit = True


def build_app(machine: Machine, control: Control, config: Path, token: str) -> FastAPI:
    """The admin application; every route but health asks for the token in its own signature."""

    def authorized(authorization: Annotated[str, Header()] = "") -> str:
        if not hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode()):
            raise HTTPException(401, "admin token required")
        return "admin"

    actor = Depends(authorized)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics")
    async def show_metrics(_actor: str = actor) -> Response:
        found = await metrics.collect(machine.run_dir)
        return Response(metrics.render(found), media_type="text/plain; version=0.0.4")

    @app.get("/admin/status")
    async def status(_actor: str = actor) -> dict[str, Any]:
        return {"processes": await metrics.collect(machine.run_dir), "config": await control.newest_digest()}

    _add_actions(app, machine, control, config, actor)
    return app


def _add_actions(app: FastAPI, machine: Machine, control: Control, config: Path, actor_of: Any) -> None:
    @app.post("/admin/config")
    async def publish(actor: str = actor_of) -> dict[str, Any]:
        try:
            return await _publish(machine, control, config, actor)
        except ConfigInvalid as error:
            raise HTTPException(422, error.mistakes) from error
        except TidegateError as error:
            raise HTTPException(503, error.code) from error

    @app.post("/admin/targets/{target:path}/{action}")
    async def switch(target: str, action: str, actor: str = actor_of, reason: str = "") -> dict[str, str]:
        if action not in {"enable", "disable"}:
            raise HTTPException(404, "enable or disable")
        try:
            known = {known.id for known in (*machine.settings.targets, *await control.newest_targets())}
            if target not in known:
                raise HTTPException(404, f"there is no target {target}")
            await control.switch(TargetId(target), disabled=action == "disable", actor=actor, reason=reason)
        except TidegateError as error:
            raise HTTPException(503, error.code) from error
        return {"target": target, "state": f"{action}d"}


async def _publish(machine: Machine, control: Control, path: Path, actor: str) -> dict[str, Any]:
    """Read the file anew and publish it. Raises ConfigInvalid with every mistake by name and line, Unavailable."""
    file = await asyncio.to_thread(examined, path)
    missing = await asyncio.to_thread(missing_here, file.settings, machine.env, frozenset({"targets"}))
    mistakes = [*file.mistakes, *missing]
    if mistakes:
        raise file.invalid(mistakes)
    routing = file.settings.routing()
    try:
        new = await control.publish_if_new(routing, actor)
    except IdentityChanged as error:
        raise file.invalid(error.mistakes) from error
    return {"published": new, "digest": routing.digest()}
