"""Each process answers its numbers on a local socket; admin collects them and adds an `instance` label."""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest

PREFIX = "tidegate_"
READ_TIMEOUT_S = 1.0
_BUCKET = re.compile(r'(?P<name>\w+)_bucket\{le="(?P<bound>[^"]+)"\}')


class MetricsServer:
    """Answers one JSON object per connection: {name: value}. Names ending in `_total` are counters, names like
    `x_bucket{le="0.1"}` with `x_sum` are histograms, all others gauges."""

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


class Histogram(msgspec.Struct, frozen=True):
    """(bound as text, how many were at most that), ascending and ending with `+Inf`; the sum of all."""

    buckets: tuple[tuple[str, float], ...]
    sum: float

    @property
    def count(self) -> int:
        """How many were observed."""
        return int(self.buckets[-1][1])

    def at_most(self, share: float) -> str:
        """The bound that so large a share did not exceed, as text."""
        return next(bound for bound, so_far in self.buckets if so_far >= share * self.count)


def histograms_of(numbers: Mapping[str, float]) -> tuple[dict[str, float], dict[str, Histogram]]:
    """Numbers of a process told apart: plain ones, and histograms by name."""
    buckets: dict[str, list[tuple[str, float]]] = {}
    plain = dict(numbers)
    for name, value in numbers.items():
        bucket = _BUCKET.fullmatch(name)
        if bucket is not None:
            buckets.setdefault(bucket["name"], []).append((bucket["bound"], value))
            del plain[name]
    return plain, {
        name: Histogram(tuple(found), plain.pop(f"{name}_sum", 0.0)) for name, found in buckets.items()
    }


class _Collected:
    def __init__(self, found: Mapping[str, Mapping[str, float]]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        """Families over all instances."""
        split = {instance: histograms_of(numbers) for instance, numbers in self._found.items()}
        yield from _histograms({instance: histograms for instance, (_, histograms) in split.items()})
        plain = {instance: numbers for instance, (numbers, _) in split.items()}
        names = sorted({name for numbers in plain.values() for name in numbers})
        for name in names:
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            metric = family(PREFIX + name, name.replace("_", " "), labels=["instance"])
            for instance, numbers in plain.items():
                if name in numbers:
                    metric.add_metric([instance], numbers[name])
            yield metric


def _histograms(found: Mapping[str, Mapping[str, Histogram]]) -> Iterable[Metric]:
    for name in sorted({name for histograms in found.values() for name in histograms}):
        metric = HistogramMetricFamily(PREFIX + name, name.replace("_", " "), labels=["instance"])
        for instance, histograms in found.items():
            if name in histograms:
                its = histograms[name]
                metric.add_metric([instance], list(its.buckets), its.sum)
        yield metric


def render(found: Mapping[str, Mapping[str, float]]) -> bytes:
    """The Prometheus text of all instances."""
    registry = CollectorRegistry()
    registry.register(_Collected(found))
    return generate_latest(registry)
