"""The price board: every part of a target's price, listed and believed, with its doubt and age."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from support.planning import NOW_NS, S, flat, of_pool, of_target, priced, routing, target, usd, used, window
from tidegate.events import codec
from tidegate.events.clock import SystemClock
from tidegate.events.envelope import Draft
from tidegate.events.log.port import Outgoing
from tidegate.events.log.sqlite import SqliteEventLog
from tidegate.events.partition import partition_of
from tidegate.events.snapshots import Belief
from tidegate.events.topics import SNAPSHOTS
from tidegate.events.types import EventId
from tidegate.runtime.commands.prices import prices_app
from tidegate.runtime.price_board import board, newest

CONFIG = routing(
    [target("m", priced(3, 15, 0.3)), target("a", pool="p"), target("b", priced(1, 1))],
    [flat("p", window("w", "tokens", 10**6))],
)


def test_a_listed_price_is_shown_as_such_until_there_are_bills() -> None:
    rows = board(CONFIG, {}, NOW_NS)
    shown = [(row.target, row.part, row.believed_nanousd, row.basis) for row in rows]
    assert shown == [
        ("m", "input_uncached", usd(3), "listed"),
        ("m", "cache_read", usd(0.3), "listed"),
        ("m", "output", usd(15), "listed"),
        ("b", "input_uncached", usd(1), "listed"),
        ("b", "output", usd(1), "listed"),
    ]
    assert all((row.sd_nanousd, row.factor, row.age_s) == (None, None, None) for row in rows)


def test_what_bills_say_is_shown_beside_the_list_with_factor_doubt_and_age() -> None:
    snapshot = of_target(
        "m",
        price_input_uncached=Belief(float(usd(3.6)), float(usd(0.1)) ** 2),
        price_output=Belief(float(usd(15)), 1.0, prior=True),
        price_cache_write_5m=Belief(float(usd(4)), 0.0),
    )
    rows = {row.part: row for row in board(CONFIG, newest([snapshot]), NOW_NS + 90 * S) if row.target == "m"}
    billed = rows["input_uncached"]
    assert (billed.listed_nanousd, billed.believed_nanousd, billed.basis) == (usd(3), usd(3.6), "billed")
    assert (billed.sd_nanousd, billed.factor, billed.age_s) == (usd(0.1), 1.2, 90.0)
    assert (rows["output"].basis, rows["output"].sd_nanousd) == ("listed", None)
    unlisted = rows["cache_write_5m"]
    assert (unlisted.listed_nanousd, unlisted.factor, unlisted.believed_nanousd) == (None, None, usd(4))


def test_quota_of_a_plan_has_its_shadow_price() -> None:
    belief = of_pool("p", used("w", 5, 10**6, shadow_nanousd=2_500.0), used("gone", 5, 10))
    (row,) = [row for row in board(CONFIG, newest([belief]), NOW_NS) if row.target == "a"]
    assert (row.part, row.believed_nanousd, row.basis) == ("quota w per million tokens", usd(2.5), "shadow")
    assert (row.listed_nanousd, row.age_s) == (None, 0.0)


def test_the_fee_of_a_plan_stands_beside_its_shadow_price() -> None:
    belief = of_pool("p", used("w", 5, 10**6, shadow_nanousd=0.0, amortised_nanousd=310.0))
    rows = [row for row in board(CONFIG, newest([belief]), NOW_NS) if row.target == "a"]
    assert [(row.basis, row.believed_nanousd) for row in rows] == [("shadow", 0), ("amortised", usd(0.31))]


def test_of_two_snapshots_the_higher_version_counts() -> None:
    old, new = of_target("m", version=4), of_target("m", version=5)
    assert newest([new, old]) == newest([old, new]) == {"target:m": new}


CONFIG_TOML = """
data_dir = "data"
[[tenants]]
id = "acme"
[[targets]]
id = "m"
dialect = "openai"
base_url = "https://api.example.com"
model = "x"
secret = "env:KEY"
[[targets.prices]]
input_uncached = "3"
output = "15"
[[routes]]
name = "code"
[[routes.candidates]]
target = "m"
"""


async def test_the_command_shows_what_the_log_holds(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text(CONFIG_TOML)
    shown = await asyncio.to_thread(run, tmp_path)
    assert [row["basis"] for row in shown] == ["listed", "listed"]
    log = SqliteEventLog.open(tmp_path / "data" / "log", frozenset({"estimator"}), SystemClock())
    snapshot = of_target("m", price_output=Belief(float(usd(12)), float(usd(1)) ** 2))
    draft = Draft(
        id=EventId("e1"), type="RateSnapshot", v=1, ts=NOW_NS, source="estimator@1", seq=1, data=snapshot
    )
    value = codec.encode(draft)
    await log.append([Outgoing(SNAPSHOTS.name, partition_of("m"), b"target:m", value)])
    await log.close()
    shown = await asyncio.to_thread(run, tmp_path)
    output = next(row for row in shown if row["part"] == "output")
    assert (output["basis"], output["believed_nanousd"], output["factor"]) == ("billed", usd(12), 0.8)


def run(folder: Path) -> list[dict[str, Any]]:
    """Rows as JSON; the table must hold the same targets."""
    made = [
        CliRunner().invoke(prices_app, ["board", "--config", str(folder / "tidegate.toml"), *more])
        for more in (["--json"], [])
    ]
    assert [each.exit_code for each in made] == [0, 0], made[0].output
    found: list[dict[str, Any]] = json.loads(made[0].stdout)
    assert all(row["part"] in made[1].stdout for row in found)
    return found
