"""Plugins and settings that every test may use."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["support.kafka_broker"]

# How long an example takes says nothing on a machine that others use too: such limits only make tests flaky.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")
