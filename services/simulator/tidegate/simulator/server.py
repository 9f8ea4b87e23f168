"""Starts every provider of a configuration on its port and stops them again."""

from pathlib import Path
from typing import Any

from tidegate.simulator.clock import Clock, SystemClock
from tidegate.simulator.config import Mode, Provider, SimulatorConfig
from tidegate.simulator.connection import Connection, Hub
from tidegate.simulator.engine import Engine
from tidegate.simulator.invoice import invoice
from tidegate.simulator.listener import Listener
from tidegate.simulator.request_log import LogFile


class Station:
    """One provider at work: its engine, its connections, its port."""

    def __init__(self, provider: Provider, engine: Engine, clock: Clock, speed: float) -> None:
        self.engine = engine
        self.hub = Hub(engine.handle, provider.keep_alive_s / speed, clock.now_s)
        self.listener = Listener(provider, lambda: Connection(self.hub))


class RunningSimulator:
    """All providers, until `stop`. `engines` gives in-process access to logs and accounts."""

    def __init__(self, stations: dict[str, Station], file: LogFile | None) -> None:
        self._stations = stations
        self._file = file
        self.engines = {name: station.engine for name, station in stations.items()}

    @property
    def ports(self) -> dict[str, int]:
        """Provider id → TCP port."""
        return {name: station.listener.port for name, station in self._stations.items()}

    def base_url(self, provider: str) -> str:
        """Scheme, host and port of a provider, without a path."""
        station = self._stations[provider]
        host = station.engine.provider.host
        shown = f"[{host}]" if ":" in host else host
        return f"{station.listener.scheme}://{shown}:{station.listener.port}"

    def invoices(self) -> dict[str, dict[str, Any]]:
        """Every provider's bill so far."""
        return {
            name: invoice(engine.provider, engine.log.lines, engine.reception.account.balance_nanousd)
            for name, engine in self.engines.items()
        }

    async def set_mode(self, provider: str, mode: Mode) -> None:
        """Change how a port behaves, on the same port; connections that are open are reset."""
        station = self._stations[provider]
        station.listener.close()
        await station.hub.drop_all()
        station.engine.mode = mode
        await station.listener.open(mode)

    async def stop(self) -> None:
        """Close everything and settle every bill. Raises ExceptionGroup of the simulator's own errors."""
        failures: list[Exception] = []
        for station in self._stations.values():
            station.listener.close()
            await station.hub.drop_all()
            failures += [error for error in station.hub.failures if isinstance(error, Exception)]
        if self._file is not None:
            self._file.close()
            self._file = None
        if failures:
            raise ExceptionGroup("the simulator failed while it answered", failures)


async def start(config: SimulatorConfig, clock: Clock | None = None) -> RunningSimulator:
    """Open every port. Raises OSError when a port, a certificate or the log file cannot be had."""
    file = LogFile(Path(config.log_path)) if config.log_path else None
    ticking = SystemClock() if clock is None else clock
    stations: dict[str, Station] = {}
    running = RunningSimulator(stations, file)
    try:
        for provider in config.providers:
            engine = Engine(provider, ticking, seed=config.seed, speed=config.speed, file=file)
            station = Station(provider, engine, ticking, config.speed)
            await station.listener.open(provider.mode)
            stations[provider.id] = station
            running.engines[provider.id] = engine
    except BaseException:
        await running.stop()
        raise
    return running
