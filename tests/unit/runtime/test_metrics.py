"""Numbers of running processes: who does not answer well is left out, and nothing is left open."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidegate.gateway.histogram import Histogram
from tidegate.runtime.commands.logs import _exact
from tidegate.runtime.metrics import MetricsServer, collect, histograms_of, render


async def test_a_process_that_dies_while_it_answers_is_left_out_and_its_connection_closed(
    tmp_path: Path,
) -> None:
    closed = asyncio.Event()

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"events_')
        writer.write_eof()
        await reader.read()  # returns once the other side has closed
        closed.set()
        writer.close()

    async with await asyncio.start_unix_server(half, path=str(tmp_path / "dying.metrics")):
        serving = asyncio.ensure_future(MetricsServer(tmp_path, "log", lambda: {"lag": 2.0}).run())
        async with asyncio.timeout(10):
            while not (tmp_path / "log.metrics").exists():
                await asyncio.sleep(0)
            found = {}
            while "log" not in found:
                found = await collect(tmp_path)
            await closed.wait()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    assert found == {"log": {"lag": 2.0}}


def test_times_are_rendered_as_prometheus_histograms_and_counts_to_the_last_digit() -> None:
    times = Histogram((1_000, 10_000))
    for time_us in (500, 1_000, 1_001, 9_000, 50_000):
        times.observe(time_us * 1_000)
    numbers = {**times.numbers("request_duration_seconds"), "events_total": 123_456_789.0, "lag": 7.0}
    text = render({"gw-0": numbers, "gw-1": {"lag": 8.0}}).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    duration = families["tidegate_request_duration_seconds"]
    assert duration.type == "histogram"
    assert {(s.name.rpartition("_")[2], s.labels.get("le"), s.value) for s in duration.samples} == {
        ("bucket", "0.001", 2.0),
        ("bucket", "0.01", 4.0),
        ("bucket", "+Inf", 5.0),
        ("count", None, 5.0),
        ("sum", None, 0.061501),
    }
    assert {s.labels["instance"] for s in duration.samples} == {"gw-0"}
    assert families["tidegate_events"].type == "counter"
    assert {(s.labels["instance"], s.value) for s in families["tidegate_lag"].samples} == {
        ("gw-0", 7.0),
        ("gw-1", 8.0),
    }


def test_a_histogram_tells_what_share_took_at_most_how_long() -> None:
    times = Histogram((1_000, 10_000))
    for time_us in [500] * 60 + [5_000] * 39 + [20_000]:
        times.observe(time_us * 1_000)
    plain, found = histograms_of({**times.numbers("x"), "y_sum": 3.0})
    assert plain == {"y_sum": 3.0}
    assert (found["x"].count, found["x"].at_most(0.5), found["x"].at_most(0.99), found["x"].at_most(1)) == (
        100,
        "0.001",
        "0.01",
        "+Inf",
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12_345_678, "12345678"),
        (0, "0"),
        (-1, "-1"),
        (0.25, "0.25"),
        (1e9 + 1, "1000000001"),
        (12.3456789, "12.345679"),
    ],
)
def test_a_number_loses_no_digit_of_its_count(value: float, text: str) -> None:
    assert _exact(value) == text
