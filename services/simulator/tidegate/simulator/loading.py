"""From a TOML file or a mapping to a checked configuration; every mistake is named with its place."""

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tidegate.simulator.config import Model, Provider, SimulatorConfig
from tidegate.simulator.faults import FaultUnknown, check, parse


class ConfigError(ValueError):
    """The configuration cannot be used; the message lists what is wrong."""


def load(source: Path | Mapping[str, Any]) -> SimulatorConfig:
    """Read and check a configuration. Raises ConfigError with every mistake found."""
    config = _convert(_read(source))
    mistakes = list(_mistakes(config))
    if mistakes:
        raise ConfigError("; ".join(mistakes))
    return config


def _read(source: Path | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(source, Path):
        return source
    try:
        return tomllib.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {source}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{source} is not TOML: {error}") from error


def _convert(raw: Mapping[str, Any]) -> SimulatorConfig:
    try:
        return msgspec.convert(raw, SimulatorConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from error


def _mistakes(config: SimulatorConfig) -> Iterator[str]:
    if not config.providers:
        yield "providers: at least one is needed"
    for identity, count in Counter(provider.id for provider in config.providers).items():
        if count > 1:
            yield f"provider {identity}: declared {count} times"
    for provider in config.providers:
        for mistake in _provider_mistakes(provider):
            yield f"provider {provider.id}: {mistake}"


def _provider_mistakes(provider: Provider) -> Iterator[str]:
    if (provider.tls_cert is None) != (provider.tls_key is None):
        yield "tls_cert and tls_key go together"
    if not provider.dialects:
        yield "dialects: at least one is needed"
    names = Counter(model.name for model in provider.models)
    yield from (f"model {name}: declared {count} times" for name, count in names.items() if count > 1)
    for shape in provider.shapes:
        try:
            parse(shape)
        except FaultUnknown as error:
            yield str(error)
    scripts = Counter(script.name for script in provider.scripts)
    yield from (f"script {name}: declared {count} times" for name, count in scripts.items() if count > 1)
    for model in provider.models:
        if model.script is not None and model.script not in scripts:
            yield f"model {model.name}: there is no script {model.script}"
        yield from _model_mistakes(model, model.billing or provider.billing)
    if provider.balance_nanousd is None and any(
        (model.billing or provider.billing) == "prepaid" for model in provider.models
    ):
        yield "balance_nanousd: needed for prepaid billing"
    for rule in provider.faults:
        try:
            check(rule.kind, rule.params)
        except FaultUnknown as error:
            yield str(error)
        if rule.every_n is not None and rule.probability is not None:
            yield f"fault {rule.kind}: every_n and probability exclude each other"


def _model_mistakes(model: Model, billing: str) -> Iterator[str]:
    if "!" in model.name:
        yield f"model {model.name}: '!' begins a fault, it cannot be part of a name"
    if billing != "flat" and (model.input_uncached is None or model.output is None):
        yield f"model {model.name}: {billing} billing needs the prices input_uncached and output"
    tiers = (model.usual_tier, *(tariff.service_tier for tariff in model.tariffs))
    for tier in sorted({tier for tier in tiers if tier is not None and tier not in model.tiers}):
        yield f"model {model.name}: the tier {tier} is not among its tiers"
    if model.min_answer_tokens > model.max_answer_tokens:
        yield f"model {model.name}: min_answer_tokens is above max_answer_tokens"
