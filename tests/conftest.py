"""Plugins and settings that every test may use."""

from collections.abc import Generator
from functools import cache

import coverage
import httpx
import pytest
from httpx._transports import default as httpx_transports
from hypothesis import HealthCheck, settings

pytest_plugins = ["support.kafka_broker"]

# How long an example takes says nothing on a machine that others use too: such limits only make tests flaky.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")
# Each httpx client, and so each of an SDK, would read all authorities of the web anew: 30 ms, a hundred times a second
# where a test asks until somebody answers. Here they share one context.
httpx_transports.create_ssl_context = cache(httpx.create_ssl_context)  # pyright: ignore[reportPrivateImportUsage]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Coverage does not watch what is marked `unmeasured`: that would double its time."""
    unmeasured = item.get_closest_marker("unmeasured") is not None
    measuring = coverage.Coverage.current() if unmeasured else None
    if measuring is None:
        return (yield)
    measuring.stop()
    try:
        return (yield)
    finally:
        measuring.start()
