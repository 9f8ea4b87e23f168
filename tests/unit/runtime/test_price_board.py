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
from tidegate.events.config import DatedPrice
from tidegate.events.envelope import Draft
from tidegate.events.log.port import Outgoing
from tidegate.events.log.sqlite import SqliteEventLog
from tidegate.events.partition import partition_of
from tidegate.events.snapshots import Belief, BilledFactors
from tidegate.events.topics import SNAPSHOTS
from tidegate.events.types import EventId
from tidegate.runtime.commands.prices import prices_app
from tidegate.runtime.price_board import board, newest

CONFIG = routing(
    [target("m", priced(3, 15, 0.3)), target("a", pool="p"), target("b", priced(1, 1))],
    [flat("p", window("w", "tokens", 10**6))],
)


def test_a_listed_price_is_a_prior_until_there_are_bills() -> None:
    prior = Belief(1.0, 0.01, prior=True)
    used_only = of_target("m", billed=BilledFactors(input_uncached=prior, output=prior))
    for snapshots in ({}, newest([of_target("m")]), newest([used_only])):
        rows = board(CONFIG, snapshots, NOW_NS)
        shown = [(row.target, row.part, row.believed_nanousd, row.basis) for row in rows]
        assert shown == [
            ("m", "input_uncached", usd(3), "prior"),
            ("m", "cache_read", usd(0.3), "prior"),
            ("m", "output", usd(15), "prior"),
            ("b", "input_uncached", usd(1), "prior"),
            ("b", "output", usd(1), "prior"),
        ]
        assert all((row.sd_nanousd, row.factor, row.age_s) == (None, None, None) for row in rows)


def test_what_bills_say_is_shown_beside_the_list_with_factor_doubt_and_age() -> None:
    billed = BilledFactors(
        input_uncached=Belief(1.2, 0.04**2),
        output=Belief(1.0, 0.01, prior=True),
        cache_write_5m=Belief(1.2, 0.0),
    )
    rows = {
        row.part: row
        for row in board(CONFIG, newest([of_target("m", billed=billed)]), NOW_NS + 90 * S)
        if row.target == "m"
    }
    shown = rows["input_uncached"]
    assert (shown.listed_nanousd, shown.believed_nanousd, shown.basis) == (usd(3), usd(3.6), "billed")
    assert (shown.sd_nanousd, shown.factor, shown.age_s) == (usd(0.12), 1.2, 90.0)
    assert (rows["output"].basis, rows["output"].sd_nanousd) == ("prior", None)
    assert "cache_write_5m" not in rows, "a share of no list price is no price"


def test_a_list_price_of_today_is_shown_as_bills_say_of_the_one_before() -> None:
    later = DatedPrice(from_ns=NOW_NS + S, input_uncached=usd(1), output=usd(5))
    config = routing([target("m", (*priced(10, 50), later))])
    snapshots = newest([of_target("m", billed=BilledFactors(output=Belief(0.8, 0.0)))])
    shown = [board(config, snapshots, at_ns)[-1].believed_nanousd for at_ns in (NOW_NS, NOW_NS + S)]
    assert shown == [usd(40), usd(4)]


def test_tokens_of_a_plan_cost_no_cash_whatever_they_are_listed_at() -> None:
    config = routing([target("a", priced(3, 15), pool="p")], [flat("p")])
    snapshots = newest([of_target("a", billed=BilledFactors(output=Belief(0.8, 0.0)))])
    rows = board(config, snapshots, NOW_NS)
    assert [(row.listed_nanousd, row.believed_nanousd, row.basis, row.factor) for row in rows] == [
        (usd(3), 0, "plan", None),
        (usd(15), 0, "plan", None),
    ]


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
    assert [row["basis"] for row in shown] == ["prior", "prior"]
    log = SqliteEventLog.open(tmp_path / "data" / "log", frozenset({"estimator"}), SystemClock())
    snapshot = of_target("m", billed=BilledFactors(output=Belief(0.8, 0.01)))
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
