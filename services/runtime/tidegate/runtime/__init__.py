"""Composition root: CLI, settings, wiring, lifecycle, telemetry."""
