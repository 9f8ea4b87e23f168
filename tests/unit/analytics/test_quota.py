"""Quota that was settled too high or too low is given back or taken, in the unit of each window."""

import msgspec
import pytest

from tidegate.analytics.bills import Bill, BillLine
from tidegate.analytics.ledger import Entry, Ledger
from tidegate.analytics.reconcile import plan
from tidegate.events.config import DatedPrice, Pool, Routing, Target, Window
from tidegate.events.decision import WindowUse
from tidegate.events.money import Tokens
from tidegate.events.types import AttemptId, PoolId, TargetId, WindowId

HOUR_NS = 3_600 * 10**9
WINDOWS = (
    Window(id=WindowId("r"), unit="requests", limit=10, duration_s=3_600),
    Window(id=WindowId("t"), unit="tokens", limit=10_000, duration_s=3_600),
    Window(id=WindowId("d"), unit="nanousd", limit=10**9, duration_s=3_600),
)


def routing(billing: str = "per_token") -> Routing:
    pool = Pool(id=PoolId("p"), windows=WINDOWS)
    target = Target(
        id=TargetId("t"), dialect="openai", base_url="https://api.example.test", model="m", pool=PoolId("p"),
        prices=(DatedPrice(input_uncached=3_000_000_000, output=15_000_000_000),),
    )  # fmt: skip
    return Routing(pools=(msgspec.structs.replace(pool, billing=billing),), targets=(target,))


def ledger(basis: str = "estimated", *, windows: bool = True) -> Ledger:
    """One attempt that was settled at its reserve: 1,000 tokens in and 99,000 out."""
    units = {"r": 1, "t": 100_000, "d": 1_488_000_000}
    found = Ledger()
    found.entries[AttemptId("a")] = Entry(
        attempt=AttemptId("a"), target=TargetId("t"), pool=PoolId("p"), route="r", tenant="acme", request="q",
        session=None, settled_ns=5 * HOUR_NS, basis=basis, outcome="cancelled", tokens=Tokens(),  # type: ignore[arg-type]
        settled_nanousd=1_488_000_000,
        windows=tuple(
            WindowUse(WindowId(name), 4 * HOUR_NS, n, HOUR_NS) for name, n in units.items() if windows
        ),
    )  # fmt: skip
    return found


def bill(*lines: tuple[int, Tokens]) -> Bill:
    return Bill(
        provider="prov", targets=frozenset({TargetId("t")}), complete_until_ns=9 * HOUR_NS,
        lines=tuple(
            BillLine(attempt="a", provider="prov", tokens=tokens, cost_nanousd=cost) for cost, tokens in lines
        ),
    )  # fmt: skip


def units(books: Ledger) -> dict[str, int]:
    return {use.window: use.units for use in books.entries[AttemptId("a")].windows}


@pytest.mark.parametrize(
    ("billing", "lines", "expected"),
    [
        ("per_token", [(3_150_000, Tokens(input_uncached=1_000, output=10))], {"r": 1, "t": 1_010, "d": 3_150_000}),
        ("flat", [(0, Tokens(input_uncached=1_000, output=10))], {"r": 1, "t": 1_010, "d": 3_150_000}),
        ("per_token", [], {"r": 0, "t": 0, "d": 0}),
        ("per_token", [(5, Tokens(output=9))], {"r": 1, "t": 9, "d": 5}),
    ],
)  # fmt: skip
def test_what_a_bill_knows_better_is_given_back_once_in_every_window(
    billing: str, lines: list[tuple[int, Tokens]], expected: dict[str, int]
) -> None:
    books, drawn, rules = ledger(), [bill(*lines)], routing(billing)
    (correction,) = plan(books, drawn, routing=rules).corrections
    assert {change.period_start_ns for change in correction.data.windows} == {4 * HOUR_NS}
    books.correct(correction.data)
    assert units(books) == expected
    assert plan(books, drawn, routing=rules).corrections == ()


def test_more_than_was_settled_is_taken() -> None:
    books = ledger("reported")
    entry = books.entries[AttemptId("a")]
    few = tuple(msgspec.structs.replace(use, units=1) for use in entry.windows)
    books.entries[AttemptId("a")] = msgspec.structs.replace(entry, windows=few)
    (correction,) = plan(
        books, [bill((9, Tokens(input_uncached=5, output=4)))], routing=routing()
    ).corrections
    assert [(change.window, change.units) for change in correction.data.windows] == [("t", 8), ("d", 8)]


def test_without_a_config_and_without_windows_nothing_of_quota_is_said() -> None:
    lines = [bill((9, Tokens(input_uncached=5, output=4)))]
    for books, rules in ((ledger(), None), (ledger(windows=False), routing()), (ledger(), Routing())):
        (correction,) = plan(books, lines, routing=rules).corrections
        assert correction.data.windows == ()


def test_a_use_of_a_peak_hour_is_corrected_by_what_it_counts_there() -> None:
    books = ledger()
    entry = books.entries[AttemptId("a")]
    peaked = tuple(msgspec.structs.replace(use, units=3 * use.units, peak=3.0) for use in entry.windows)
    books.entries[AttemptId("a")] = msgspec.structs.replace(entry, windows=peaked)
    lines = [bill((3_150_000, Tokens(input_uncached=1_000, output=10)))]
    (correction,) = plan(books, lines, routing=routing()).corrections
    books.correct(correction.data)
    assert units(books) == {"r": 3, "t": 3_030, "d": 9_450_000}
