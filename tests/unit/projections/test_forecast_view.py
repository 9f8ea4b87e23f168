"""Forecasts beside what happened: decided only by what is in the log, near copies counted once."""

from pathlib import Path
from typing import Any

from support.forecast_history import LENGTH_NS, Told
from support.history import History, S
from support.read_model import dicts, filled


async def told(path: Path, told: Told) -> list[dict[str, Any]]:
    path.mkdir(exist_ok=True)
    await filled(path / "m.duckdb", told.history)
    return dicts(path / "m.duckdb", "SELECT * FROM v_forecasts ORDER BY believed_ns")


async def test_a_forecast_comes_true_when_the_quota_is_gone_before_the_reset(tmp_path: Path) -> None:
    made = Told(History())
    made.at(30, 10, 0.3, remaining_quantiles=(1.0, 2.0, 3.0, 4.0, 5.0))
    made.at(90, 60, 0.8, exhausts_p50_ns=made.begin_ns + 150 * S)
    made.at(200, 100, 1.0)
    made.at(400, 107, 1.0)
    first, second = await told(tmp_path, made)
    assert first["exhausted"] is second["exhausted"] is True
    assert first["exhausted_ns"] == second["exhausted_ns"] == made.begin_ns + 200 * S
    assert first["final_used"] == 100, "use ends at the limit"
    assert (first["remaining_p05"], first["remaining_p95"], second["remaining_p05"]) == (1.0, 5.0, None)
    assert second["exhausts_p50_ns"] == made.begin_ns + 150 * S


async def test_nobody_knows_before_the_reset_and_what_the_next_period_uses_is_its_own(tmp_path: Path) -> None:
    made = Told(History())
    made.at(30, 10, 0.3)
    (open_,) = await told(tmp_path, made)
    assert (open_["exhausted"], open_["exhausted_ns"], open_["final_used"]) == (None, None, None)
    made.at(500, 40, 0.1)
    made.at(620, 5, 0.2)
    made.at(700, 100, 1.0)
    over = await told(tmp_path / "again", made)
    assert [row["exhausted"] for row in over] == [False, False, True]
    assert [row["final_used"] for row in over] == [40, 40, 100]
    assert [row["period"] for row in over] == [1, 1, 2]


async def test_of_the_forecasts_of_a_thirtieth_the_last_one_counts(tmp_path: Path) -> None:
    made = Told(History())
    first_s = -made.begin_ns % (20 * S) / S  # where a thirtieth of ten minutes begins
    for at_s, p in ((first_s, 0.1), (first_s + 5, 0.2), (first_s + 19, 0.3), (first_s + 20, 0.4)):
        made.at(at_s, 10, p, start_s=0)
    rows = await told(tmp_path, made)
    assert [row["p_exhaust"] for row in rows] == [0.3, 0.4]


async def test_starts_that_differ_a_little_are_one_period(tmp_path: Path) -> None:
    made = Told(History())
    made.at(30, 10, 0.3, start_s=0.5)
    made.at(90, 20, 0.3, start_s=0.0)
    made.at(601, 0, 0.3, start_s=600.2)
    assert [row["period"] for row in await told(tmp_path, made)] == [1, 1, 2]


async def test_a_forecast_of_a_rolling_window_is_of_its_length_to_come(tmp_path: Path) -> None:
    made = Told(History(), rolling=True)
    first_s = -made.begin_ns % (600 * S) / S  # where a stretch of ten minutes begins
    for at_s, used, p in ((0, 10, 0.3), (500, 60, 0.8), (700, 100, 1.0), (1_400, 20, 0.1)):
        made.at(first_s + at_s, used, p)
    early, late, after = await told(tmp_path, made)
    begin_ns = made.begin_ns + int(first_s * S)
    assert (early["period_start_ns"], early["resets_at_ns"]) == (begin_ns, begin_ns + 600 * S)
    assert early["exhausted"] is False, "dry only eleven minutes later"
    assert (late["exhausted"], late["exhausted_ns"]) == (True, begin_ns + 700 * S)
    assert (after["exhausted"], after["period"]) == (None, 2)
    assert [row["final_used"] for row in (early, late, after)] == [None] * 3


async def test_what_was_settled_in_a_rolling_window_is_that_of_its_length(tmp_path: Path) -> None:
    made = Told(History(), rolling=True)
    made.at(0, 10, 0.3)
    await filled(tmp_path / "m.duckdb", made.history)
    (row,) = dicts(tmp_path / "m.duckdb", "SELECT rolls_ns, resets_at_ns, settled_units FROM v_windows")
    assert row == {"rolls_ns": LENGTH_NS, "resets_at_ns": None, "settled_units": None}


async def test_what_was_said_is_the_decision_and_before_there_was_one_the_likelier(tmp_path: Path) -> None:
    made = Told(History())
    for at_s, p, said in ((30, 0.3, True), (90, 0.8, False), (150, 0.8, None), (210, 0.3, None)):
        made.at(at_s, 10, p, will_exhaust=said)
    assert [row["will_exhaust"] for row in await told(tmp_path, made)] == [True, False, True, False]
    assert dicts(tmp_path / "m.duckdb", "SELECT will_exhaust FROM v_windows") == [{"will_exhaust": None}]
