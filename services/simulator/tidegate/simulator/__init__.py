"""Simulated LLM providers with their own log, invoice, caches, quota windows and faults."""
