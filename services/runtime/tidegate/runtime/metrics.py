"""Each process answers its numbers on a local socket; admin collects them and adds an `instance` label."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from prometheus_client.core import CollectorRegistry, CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

PREFIX = "tidegate_"
READ_TIMEOUT_S = 1.0


class MetricsServer:
    """Answers one JSON object per connection: {"role": …, "numbers": {name: value}}. Names ending in `_total`
    are counters, all others gauges."""

    def __init__(self, run_dir: Path, instance: str, numbers: Callable[[], Mapping[str, float]]) -> None:
        self._path = run_dir / f"{instance}.metrics"
        self._instance = instance
        self._numbers = numbers

    async def run(self) -> None:
        """Serve until cancelled."""
        self._path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._answer, path=str(self._path))
        self._path.chmod(0o600)
        try:
            await server.serve_forever()
        finally:
            server.close()
            self._path.unlink(missing_ok=True)

    async def _answer(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json.dumps(dict(self._numbers())).encode())
        await writer.drain()
        writer.close()


async def collect(run_dir: Path) -> dict[str, dict[str, float]]:
    """Numbers of every process that answers within a second, by instance."""
    found: dict[str, dict[str, float]] = {}
    for path in sorted(run_dir.glob("*.metrics")):  # noqa: ASYNC240 - a folder of a few sockets
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                found[path.stem] = await _asked(path)
        except (OSError, TimeoutError, ValueError):
            continue
    return found


async def _asked(path: Path) -> dict[str, float]:
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        answer: dict[str, float] = json.loads(await reader.read())
        return answer
    finally:
        writer.close()


class _Collected:
    def __init__(self, found: Mapping[str, Mapping[str, float]]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        """Families over all instances."""
        names = sorted({name for numbers in self._found.values() for name in numbers})
        for name in names:
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            metric = family(PREFIX + name, name.replace("_", " "), labels=["instance"])
            for instance, numbers in self._found.items():
                if name in numbers:
                    metric.add_metric([instance], numbers[name])
            yield metric


def render(found: Mapping[str, Mapping[str, float]]) -> bytes:
    """The Prometheus text of all instances."""
    registry = CollectorRegistry()
    registry.register(_Collected(found))
    return generate_latest(registry)
