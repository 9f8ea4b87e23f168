"""The gateway's config of a demo: valid, without secrets, with durations divided by the speed."""

import pytest

from tidegate.events.config import Settings
from tidegate.gateway.credentials import KeyDirectory, key_text
from tidegate.runtime.demo.config import POOL, ROUTE, SECRET_VARIABLE, LogChoice, gateway_config
from tidegate.runtime.demo.providers import FLAT, PROVIDERS, Plan
from tidegate.runtime.demo.workload import TENANTS
from tidegate.runtime.settings import parse_settings

KEYS = {tenant: key_text(bytes([place]) * 32) for place, tenant in enumerate(TENANTS)}
PORTS = {name: 20_000 + place for place, name in enumerate(PROVIDERS)}


def text(speed: float = 240.0, log: LogChoice | None = None) -> str:
    return gateway_config(PORTS, KEYS, Plan(40, 1_000_000), speed, log or LogChoice())


def settings(speed: float = 240.0, log: LogChoice | None = None) -> Settings:
    return parse_settings(text(speed, log))


def test_the_settings_reader_accepts_it_and_every_tenant_is_known_by_key() -> None:
    routing = settings().routing()
    directory = KeyDirectory(routing)
    for tenant, key in KEYS.items():
        principal = directory.find(key.encode())
        assert principal is not None
        assert principal.tenant.id == tenant
    assert [route.name for route in routing.routes] == [ROUTE]
    assert {candidate.target for candidate in routing.routes[0].candidates} == set(PROVIDERS)
    assert {target.id: target.pool_id == POOL for target in routing.targets} == {
        name: name == FLAT for name in PROVIDERS
    }


def test_no_secret_is_written() -> None:
    written = text()
    assert not any(key in written for key in KEYS.values())
    assert written.count(f"env:{SECRET_VARIABLE}") == len(PROVIDERS)


def test_windows_are_divided_by_the_speed() -> None:
    slow, fast = settings(speed=1.0), settings(speed=100.0)
    for before, after in zip(slow.pools[0].windows, fast.pools[0].windows, strict=True):
        assert after.duration_s == pytest.approx(before.duration_s / 100)
        assert after.limit == before.limit
    assert slow.pools[0].windows[0].duration_s == 5 * 3_600


@pytest.mark.parametrize("speed", [1.0, 10.0, 100_000.0])
def test_deadlines_are_divided_by_the_speed_but_never_shorter_than_a_busy_machine_needs(speed: float) -> None:
    deadlines = settings(speed).targets[0].deadlines
    assert deadlines.header_s == max(5.0, 60.0 / speed)
    assert deadlines.first_token_s == max(5.0, 120.0 / speed)


def test_the_log_is_the_embedded_one_or_the_kafka_that_was_chosen() -> None:
    assert settings().log.kind == "sqlite"
    log = settings(log=LogChoice("127.0.0.1:9092", "demo-1.", 1)).log
    assert (log.kind, log.bootstrap, log.topic_prefix, log.replication) == (
        "kafka",
        "127.0.0.1:9092",
        "demo-1.",
        1,
    )
