"""A configuration is read strictly, every mistake is named, and every key is documented."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.simulator import config as sections
from tidegate.simulator.loading import ConfigError, load
from unit.simulator.rig import MODEL, provider

PAGE = Path(__file__).parents[3] / "docs/reference/simulator.md"


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ({"providers": []}, "at least one"),
        ({"providers": [provider(ports=1)]}, "ports"),
        ({"providers": [provider(port="x")]}, r"providers\[0\].port"),
        ({"providers": [provider(), provider()]}, "provider p: declared 2 times"),
        ({"providers": [provider(tls_cert="x")]}, "tls_key"),
        ({"providers": [provider(dialects=[])]}, "dialects"),
        ({"providers": [provider(models=[MODEL, MODEL])]}, "model m: declared 2 times"),
        ({"providers": [provider(models=[{"name": "m"}])]}, "needs the prices"),
        ({"providers": [provider(models=[{**MODEL, "script": "x"}])]}, "model m: there is no script x"),
        ({"providers": [provider(scripts=[{"name": "s", "turns": []}] * 2)]}, "script s: declared 2 times"),
        ({"providers": [provider(models=[{**MODEL, "name": "m!x"}])]}, "begins a fault"),
        ({"providers": [provider(models=[{**MODEL, "min_answer_tokens": 99}])]}, "above max_answer_tokens"),
        ({"providers": [provider(billing="prepaid")]}, "balance_nanousd"),
        ({"providers": [provider(faults=[{"kind": "oops"}])]}, "not in the catalogue"),
        ({"providers": [provider(faults=[{"kind": "500", "every_n": 2, "probability": 0.1}])]}, "exclude"),
        ({"providers": [provider()], "speed": 0}, "speed"),
    ],
)
def test_a_mistake_is_named_with_its_place(raw: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        load(raw)


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load({"providers": [provider(tls_cert="x", billing="prepaid")]})
    assert "tls_key" in str(caught.value)
    assert "balance_nanousd" in str(caught.value)


def test_a_file_is_read_and_a_missing_or_broken_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "sim.toml"
    with pytest.raises(ConfigError, match="cannot read"):
        load(file)
    file.write_text("providers = [")
    with pytest.raises(ConfigError, match="not TOML"):
        load(file)


def test_the_example_of_the_reference_page_can_be_used(tmp_path: Path) -> None:
    example = PAGE.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    file = tmp_path / "sim.toml"
    file.write_text(example)
    config = load(file)
    assert config.providers[0].models[0].cache_read == 300_000_000
    assert config.providers[0].faults[0].params == {"retry_after": "8"}


@pytest.mark.parametrize(
    "section",
    [
        sections.SimulatorConfig,
        sections.Provider,
        sections.Model,
        sections.WindowRule,
        sections.PeakRule,
        sections.CacheRule,
        sections.Latency,
        sections.FaultRule,
        sections.Script,
        sections.ScriptTurn,
        sections.ScriptPart,
    ],
)
def test_every_key_is_on_the_reference_page(section: type[msgspec.Struct]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    missing = [
        field
        for field in section.__struct_fields__
        if f"`{field}`" not in page and f"[[providers.{field}]]" not in page and f"[[{field}]]" not in page
    ]
    assert missing == []
