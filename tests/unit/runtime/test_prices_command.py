"""`tidegate prices`: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tidegate.runtime.commands.prices import prices_app
from tidegate.runtime.pricebook.price_file import read
from tidegate.runtime.settings import parse_settings

LITELLM = {
    "gpt-4.1": {
        "mode": "chat",
        "litellm_provider": "openai",
        "input_cost_per_token": 2e-06,
        "output_cost_per_token": 9e-06,
        "cache_read_input_token_cost": 5e-07,
        "input_cost_per_token_priority": 4e-06,
    },
    "image": {"mode": "image_generation"},
    "new": {
        "mode": "chat",
        "litellm_provider": "nobody",
        "input_cost_per_token": 0,
        "output_cost_per_token": 0,
    },
}


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    done = CliRunner().invoke(prices_app, [str(argument) for argument in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def read_json(*arguments: str | Path) -> Any:
    code, out, _ = run(*arguments, "--json")
    return code, json.loads(out)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "litellm.json"
    path.write_text(json.dumps(LITELLM))
    return path


def test_list_shows_what_a_million_tokens_cost(tmp_path: Path) -> None:
    code, out, _ = run("list", "openai/GPT-4.1")
    assert code == 0
    assert [line.split() for line in out.splitlines() if line.startswith("openai/gpt-4.1 ")] == [
        ["openai/gpt-4.1", "2", "0.5", "8"]
    ]
    code, found = read_json("list", "openai/gpt-5.4", "--on", "2026-01-01")
    assert code == 0
    (one,) = [each for each in found if each["model"] == "openai/gpt-5.4"]
    assert one["input_uncached"] == 2_500_000_000
    assert "from" not in one


def test_show_writes_prices_as_a_config_writes_them() -> None:
    code, out, _ = run("show", "openai/gpt-4.1-2025-04-14")
    assert code == 0
    heading, _, tables = out.partition("\n")
    assert heading == "# openai/gpt-4.1"
    target = '[[targets]]\nid = "x"\ndialect = "openai"\nbase_url = "https://a.test"\nmodel = "m"\n'
    route = '[[routes]]\nname = "r"\ncandidates = [{ target = "x" }]\n'
    pasted = parse_settings(target + tables + route).targets[0].prices
    named = parse_settings(target + 'price_book = "openai/gpt-4.1"\n' + route).targets[0].prices
    assert pasted == named
    assert read_json("show", "openai/gpt-4.1")[1]["model"] == "openai/gpt-4.1"


def test_an_unknown_model_ends_with_2_and_near_names() -> None:
    code, _, err = run("show", "openai/gpt-4.11")
    assert code == 2
    assert "not in the price book; near it: openai/gpt-4.1" in err


def test_import_writes_a_file_that_goes_before_the_book(table: Path, tmp_path: Path) -> None:
    target = tmp_path / "prices.toml"
    code, out, err = run("import", "--litellm", table, "--output", target)
    assert (code, out, err) == (
        0,
        "",
        "image: left out: not billed by the token\n2 models; 1 entries left out\n",
    )
    assert [each.id for each in read(target)] == ["openai/gpt-4.1", "nobody/new"]
    assert 'output = "9"' in run("show", "openai/gpt-4.1", "--prices", target)[1]


def test_import_without_a_place_prints_and_takes_only_what_is_wanted(table: Path) -> None:
    code, out, _ = run("import", "--litellm", table, "--model", "GPT")
    assert code == 0
    assert "openai/gpt-4.1" in out
    assert "nobody" not in out
    code, found = read_json("import", "--litellm", table, "--model", "gpt")
    assert code == 0
    assert found == {
        "models": ["openai/gpt-4.1"],
        "left_out": {"image": "not billed by the token"},
        "not_taken": {},
        "output": None,
    }


def test_import_of_a_packed_csv(tmp_path: Path) -> None:
    packed = tmp_path / "p.csv.gz"
    packed.write_bytes(gzip.compress(b"model,input_uncached,output\np/m,1,2\n"))
    code, out, _ = run("import", "--csv", packed)
    assert code == 0
    assert 'id = "p/m"' in out


def test_import_tells_what_it_did_not_take_and_when_the_table_was_looked_up(tmp_path: Path) -> None:
    usual = {
        "mode": "chat",
        "litellm_provider": "p",
        "input_cost_per_token": 1e-06,
        "output_cost_per_token": 1e-06,
    }
    entries = {f"m{n}": usual | {"input_cost_per_image": 0.1} for n in range(50)}
    foreign = tmp_path / "l.json"
    foreign.write_text(json.dumps(entries))
    code, out, err = run("import", "--litellm", foreign, "--dated", "2026-11-10")
    assert code == 0
    assert out.count('source = "l.json m') == out.count('looked up 2026-11-10"') == 50
    assert "p/m7: has prices that are not taken: input_cost_per_image\n" in err
    assert "… and 10 more; --json has all\n" in err
    code, found = read_json("import", "--litellm", foreign)
    assert (code, len(found["not_taken"])) == (0, 50)


def test_import_of_a_csv_carries_tiers_and_refuses_what_it_would_lose(tmp_path: Path) -> None:
    rows = tmp_path / "c.csv"
    head = "model,service_tier,above_input_tokens,input_uncached,output\n"
    rows.write_bytes(b"\xef\xbb\xbf" + f"{head}p/m,,,1,2\np/m,priority,,2,4\np/m,,9000,2,3\n".encode())
    target = tmp_path / "o.toml"
    assert run("import", "--csv", rows, "-o", target)[0] == 0
    (price,) = read(target)[0].prices
    assert [(v.service_tier, v.above_input_tokens, v.output) for v in price.variants] == [
        (None, 9_000, 3 * 10**9),
        ("priority", None, 4 * 10**9),
    ]
    rows.write_text(f"{head}p/m,,,1,2\np/m,,,2,4\n")
    code, _, err = run("import", "--csv", rows, "-o", target)
    assert code == 2
    assert "c.csv:3: `p/m` has a price for the same date, service tier and length in c.csv:2" in err


def test_import_of_nothing_writes_nothing_and_is_a_finding(table: Path, tmp_path: Path) -> None:
    code, _, err = run("import", "--litellm", table, "--model", "zzz", "-o", tmp_path / "none.toml")
    assert code == 1
    assert "nothing was written" in err
    assert not (tmp_path / "none.toml").exists()


def test_check_tells_every_number_that_differs_and_ends_with_1(table: Path) -> None:
    code, out, _ = run("check", "--litellm", table)
    assert code == 1
    assert ["openai/gpt-4.1", "output", "8", "9"] in [line.split() for line in out.splitlines()]
    assert "1 models in both; 2 numbers equal, 2 differ" in out
    code, found = read_json("check", "--litellm", table, "--on", "2026-11-30")
    assert code == 1
    assert {
        "model": "openai/gpt-4.1",
        "class": "input_uncached",
        "service_tier": "priority",
        "above_input_tokens": None,
        "book_nanousd": 3_500_000_000,
        "table_nanousd": 4_000_000_000,
    } in found["differences"]
    assert found["only_in_table"] == ["nobody/new"]
    assert found["left_out"] == {"image": "not billed by the token"}
    assert found["one_sided"]


def test_check_of_equal_tables_ends_with_0(table: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    run("import", "--litellm", table, "-o", own)
    code, out, _ = run("check", "--litellm", table, "--prices", own)
    assert code == 0
    assert "0 differ" in out


def test_check_against_another_book(table: Path, tmp_path: Path) -> None:
    other = tmp_path / "data.json"
    prices = {"input_mtok": 2, "output_mtok": 9, "cache_read_mtok": 0.5}
    entry = {"id": "gpt-4.1", "match": {"equals": "gpt-4.1"}, "prices": prices}
    other.write_text(json.dumps([{"id": "openai", "models": [entry]}]))
    code, found = read_json("check", "--litellm", table, "--genai", other)
    assert (code, found["equal"], found["differences"]) == (0, 3, [])


def test_long_reports_are_cut_and_say_so(tmp_path: Path) -> None:
    many = tmp_path / "many.csv"
    names = ["claude-opus-4-6", "claude-sonnet-5-5", "claude-sonnet-4-6"]
    rows = [f"anthropic/{name}-{n},1,1" for name in names for n in range(20)]
    many.write_text("\n".join(["model,input_uncached,output", *rows]) + "\n")
    code, out, _ = run("check", "--csv", many)
    assert code == 1
    assert "more; --json has all" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["import"], "give one table"),
        (["check", "--litellm", "{t}", "--csv", "{t}"], "give one table"),
        (["check", "--csv", "{t}"], "no column `model`"),
        (["check", "--litellm", "{t}.none"], "cannot be read: No such file"),
        (["check", "--litellm", "{t}", "--genai", "{t}"], "not the data of genai-prices"),
        (["check", "--litellm", "{t}", "--genai", "{t}", "--prices", "{t}"], "name two books"),
        (["check", "--litellm", "{t}", "--on", "today"], "`today` is no day"),
        (["list", "--prices", "{t}"], "not valid TOML"),
        (["import", "--litellm", "{t}", "-o", "/proc/none/x"], "cannot be written"),
        (["import", "--litellm", "{cut}"], "cannot be read: Compressed file ended"),
    ],
)
def test_what_cannot_be_done_ends_with_2_and_says_why(
    table: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"x" * 1000)[:15])
    code, _, err = run(*(each.format(t=table, cut=cut) for each in arguments))
    assert code == 2
    assert said in err
