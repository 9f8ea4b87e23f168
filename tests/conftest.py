"""Plugins that every test may use."""

pytest_plugins = ["support.kafka_broker"]
