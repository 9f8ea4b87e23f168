"""The gateway role: journal slot, planner on a followed view, upstream client, tenant listener."""

import asyncio
import contextlib
import resource
import secrets
from importlib.metadata import version
from pathlib import Path

from tidegate.events.config import GatewaySettings, Routing
from tidegate.events.errors import Broken, JournalUnwritable, TidegateError
from tidegate.events.journal.journal import Journal, read_position
from tidegate.gateway.app import Dispatcher
from tidegate.gateway.errors import request_id_line
from tidegate.gateway.listener import GatewayServer, serve
from tidegate.gateway.server_limits import ServerLimits
from tidegate.gateway.upstream import Upstream
from tidegate.gateway.worker import Worker
from tidegate.planner.follower import Follower
from tidegate.planner.overlay import Overlay
from tidegate.planner.planner import Planner
from tidegate.planner.rng import SplitMix64
from tidegate.runtime import memory
from tidegate.runtime.gateway_planner import GatewayPlanner
from tidegate.runtime.local_switch import LocalSwitch
from tidegate.runtime.machine import Machine
from tidegate.runtime.metrics import MetricsServer
from tidegate.runtime.process import Stopping, kept_up
from tidegate.runtime.settings import resolve_secrets
from tidegate.runtime.sockets import bound, given
from tidegate.runtime.telemetry import logger

DAMAGED_RETRY_S = 5.0
RELAY_WAIT_S = 5.0
"""What the relay has not taken by then it takes later: the journal stays."""
RELAY_POLL_S = 0.02
REFUSING_POLL_S = 0.2
ORPHAN_GRACE_S = 5.0
"""What streams get once the supervisor is gone: until they end, the next one's gateways have no journal slot."""


class GatewayRole:
    """One worker process."""

    def __init__(self, machine: Machine, slot: str, fd: int | None) -> None:
        self._machine = machine
        self._slot = slot
        self._fd = fd
        self.port = 0
        # Set when `run` begins.
        self.worker: Worker
        self.follower: Follower

    async def run(self, stopping: Stopping) -> None:
        """Serve until told to stop, then drain, settle, flush. Raises ConfigInvalid, SlotTaken, …"""
        machine = self._machine
        _allow_sockets()
        journal = await machine.open_journal(self._slot)
        upstream = Upstream(connections_per_origin=machine.settings.gateway.upstream_connections)
        log = machine.open_log()
        try:
            overlay = Overlay(journal.source, workers=machine.settings.gateway.workers)
            routing = machine.settings.routing()
            follower = Follower(log, routing, overlay, machine.clock, accept=self._publish)
            self.follower = follower
            worker = self.worker = self._new_worker(journal, upstream, overlay, follower)
            self._publish(routing)
            async with asyncio.TaskGroup() as tasks:
                following = tasks.create_task(kept_up("config", lambda: follow(follower)))
                metrics = MetricsServer(machine.run_dir, self._slot, lambda: numbers_of(worker, follower))
                serving = tasks.create_task(kept_up("metrics", metrics.run))
                local = LocalSwitch(machine, self._slot, follower)
                switch = tasks.create_task(kept_up("local switch", local.run))
                watching = tasks.create_task(tell_refusals(journal))
                try:
                    await self._serve(worker, stopping)
                    if not stopping.orphaned.is_set():  # the relay has lost the same parent
                        await wait_relayed(journal, machine.journal_dir(self._slot), RELAY_WAIT_S)
                finally:
                    following.cancel()
                    serving.cancel()
                    switch.cancel()
                    watching.cancel()
        finally:
            await upstream.aclose()
            await journal.close()
            await log.close()

    def _new_worker(
        self, journal: Journal, upstream: Upstream, overlay: Overlay, follower: Follower
    ) -> Worker:
        machine = self._machine
        seeds = SplitMix64(secrets.randbits(64))
        code = version("tidegate")
        planner = Planner(follower, overlay, machine.clock, machine.ids, seeds, code)
        return Worker(
            journal=journal,
            planner=GatewayPlanner(planner, overlay, machine.clock),
            upstream=upstream,
            clock=machine.clock,
            ids=machine.ids,
            settings=machine.settings.gateway,
            data_key=machine.data_key(),
        )

    def _publish(self, routing: Routing) -> None:
        """Serve by a config. Raises TidegateError when this machine cannot, e.g. without a secret of it."""
        try:
            self.worker.publish(routing, resolve_secrets(routing.targets, self._machine.env))
            logger().info("config in force", digest=routing.digest())
        except TidegateError as error:
            logger().error("config cannot be served here", digest=routing.digest(), code=error.code)
            raise

    async def _serve(self, worker: Worker, stopping: Stopping) -> None:
        settings = self._machine.settings.gateway
        listening = bound(settings.host, settings.port) if self._fd is None else given(self._fd)
        self.port = listening.getsockname()[1]
        stop = asyncio.Event()

        def started(server: GatewayServer) -> None:
            logger().info("gateway serves", port=self.port, orphans=worker.journal.orphans_settled)
            draining.append(asyncio.ensure_future(self._drain(worker, server, stopping, stop)))

        draining: list[asyncio.Future[None]] = []
        app = Dispatcher(worker)
        try:
            left = await serve(
                app,
                [listening],
                limits_of(settings),
                stop=stop,
                id_line=lambda: request_id_line(self._machine.ids.next()),
                direct=app.direct,
                on_started=started,
            )
        finally:
            for task in draining:
                task.cancel()
        if left:
            logger().warning("requests were cut", count=left)

    async def _drain(
        self, worker: Worker, server: GatewayServer, stopping: Stopping, stop: asyncio.Event
    ) -> None:
        await stopping.event.wait()
        worker.draining = True
        server.announce_drain()
        with contextlib.suppress(TimeoutError):  # without a parent at once: the next one wants the port
            async with asyncio.timeout(self._machine.settings.gateway.drain_delay_s):
                await stopping.orphaned.wait()
        stop.set()
        await stopping.orphaned.wait()
        await asyncio.sleep(ORPHAN_GRACE_S)
        server.cancel_active()


def _allow_sockets() -> None:
    """As many open sockets as this process may have: each request takes two, and the usual limit is 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # where "no limit" is no number that may be set
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def follow(follower: Follower) -> None:
    """Follow until cancelled. A damaged log ends no request: the last view stays in force, and its age shows."""
    while True:
        try:
            await follower.run()
        except Broken as error:
            logger().error("the log cannot be followed", code=error.code, why=str(error))
            await asyncio.sleep(DAMAGED_RETRY_S)


async def tell_refusals(journal: Journal) -> None:
    """Log why the journal turns requests away, and when it takes them again; until cancelled.

    Clients and probes are not told why: the reason names folders of this machine.
    """
    refused = False
    while True:
        why = journal.refusing
        if why is not None and not refused:
            logger().error("journal takes no requests", why=why)
        elif why is None and refused:
            logger().info("journal takes requests again")
        refused = why is not None
        await asyncio.sleep(REFUSING_POLL_S)


async def wait_relayed(journal: Journal, folder: Path, at_most_s: float) -> bool:
    """Flush, then wait until the log holds the whole journal. False: not in time, or no relay was ever here."""
    if read_position(folder) == 0:
        return False
    try:
        async with asyncio.timeout(at_most_s):
            journal.flush()
            await journal.wait_synced(journal.committed_seq)
            while read_position(folder) <= journal.committed_seq:  # noqa: ASYNC110 - another process moves it
                await asyncio.sleep(RELAY_POLL_S)
    except (TimeoutError, JournalUnwritable):
        logger().warning("ended before the log has every event", count=journal.committed_seq)
        return False
    return True


def limits_of(settings: GatewaySettings) -> ServerLimits:
    """The listener's limits as configured."""
    return ServerLimits(
        max_body_bytes=settings.max_body_bytes,
        max_held_body_bytes=settings.max_held_body_bytes
        or memory.held_body_bytes(memory.allowed_bytes(), settings.workers, settings.max_body_bytes),
        header_deadline_s=settings.header_deadline_s,
        body_deadline_s=settings.body_deadline_s,
        keep_alive_s=settings.keepalive_s,
        client_stall_s=settings.client_stall_s,
        drain_grace_s=max(0.001, settings.drain_grace_s),
    )


def numbers_of(worker: Worker, follower: Follower) -> dict[str, float]:
    """The worker's numbers for the metrics socket."""
    tally, journal = worker.tally, worker.journal
    status = follower.status()
    return {
        "requests_in_flight": tally.in_flight,
        **{f"requests_{outcome}_total": count for outcome, count in tally.outcomes.items()},
        "requests_refused_total": tally.refused,
        "requests_unauthenticated_total": tally.unauthenticated,
        "events_unrecorded_total": tally.unrecorded,
        "requests_unpriced_total": tally.unpriced,
        "targets_without_price": worker.targets_without_price(),
        "attempts_total": tally.attempts,
        "cost_usd_total": tally.cost_nanousd / 1e9,
        **tally.overhead.numbers("request_overhead_seconds"),
        **tally.duration.numbers("request_duration_seconds"),
        **tally.first_token.numbers("time_to_first_token_seconds"),
        "journal_open_attempts": journal.open_attempts,
        "journal_committed_seq": journal.committed_seq,
        "journal_synced_seq": journal.synced_seq,
        "journal_syncs_total": journal.syncs,
        "journal_refusing": float(journal.refusing is not None),
        "view_snapshots": status.snapshots,
        "view_staleness_s": -1.0 if status.staleness_s is None else status.staleness_s,
        "upstream_active": sum(pool.active for pool in worker.upstream.stats()),
    }
