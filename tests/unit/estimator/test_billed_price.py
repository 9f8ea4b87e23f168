"""What is billed, from the signals to what is published: bills alone teach it, whatever is listed meanwhile."""

from __future__ import annotations

import msgspec
import pytest

from support.journals import make_ids
from support.signals import START_NS
from tidegate.estimator.engine import Engine
from tidegate.estimator.fold import Folding
from tidegate.estimator.publish import publish
from tidegate.estimator.state import CLASSES, FOLD_VERSION, Row, State, upcast_row
from tidegate.events import codec
from tidegate.events.clock import ManualClock
from tidegate.events.config import DatedPrice, Routing, Target, VariantPrice
from tidegate.events.cooldown import Cooldown
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import Outgoing, Record, TopicPartition
from tidegate.events.money import ListPrice, PartPrices, Tokens, cost_nanousd
from tidegate.events.partition import partition_of
from tidegate.events.signals import SettlementCorrected, UsageSettled
from tidegate.events.snapshots import RateSnapshot, TargetBelief
from tidegate.events.topics import SNAPSHOTS, STATE
from tidegate.events.types import AttemptId, PoolId, TargetId

MINUTE_NS = 60 * 10**9
USD = 10**9
T = TargetId("t")
PRICE = DatedPrice(input_uncached=3 * USD, cache_read=USD // 4, output=15 * USD)
TOKENS = Tokens(input_uncached=4_000, cache_read=9_000, cache_write_5m=100, output=500)
DATED = (PRICE, DatedPrice(from_ns=START_NS + 500 * MINUTE_NS, input_uncached=USD, output=5 * USD))


class Story:
    """Requests to one target, a minute apart, and their bills."""

    def __init__(self, prices: tuple[DatedPrice, ...] = (PRICE,)) -> None:
        self.target = Target(id=T, dialect="openai", base_url="http://127.0.0.1:9", model="m", prices=prices)
        self.state = State()
        self.now_ns = START_NS

    def settle(self, tokens: Tokens = TOKENS, *, listed: bool = True) -> ListPrice | None:
        self.now_ns += MINUTE_NS
        price = self.target.list_price(self.now_ns)
        plain = None if price is None or not listed else price.plain_for(tokens)
        self._take(
            UsageSettled(
                attempt=AttemptId("a"),
                target=T,
                pool=PoolId("t"),
                route="r",
                basis="reported",
                outcome="completed",
                tokens=tokens,
                price=plain,
            )
        )
        return plain

    def bill(
        self, factor: float, price: ListPrice | None, tokens: Tokens = TOKENS, *, told: bool = True
    ) -> None:
        """`told`: the correction tells the price, as it does since there is a field for it."""
        listed = (price and cost_nanousd(tokens, price)) or 0
        correction = SettlementCorrected(
            attempt=AttemptId("a"),
            target=T,
            pool=PoolId("t"),
            delta_nanousd=round(factor * listed) - listed,
            tokens=tokens,
            billed_nanousd=round(factor * listed),
            price=price if told else None,
            evidence="bill",
        )
        self._take(correction)

    def _take(self, data: UsageSettled | SettlementCorrected) -> None:
        run = Folding(self.state)
        run.handlers[type(data)](data, self.now_ns, 0)
        run.finish()

    def settled_row(self) -> Row:
        self.settle()
        return self.state.target_row(T)

    def belief(self) -> TargetBelief:
        routing = Routing(targets=(self.target,))
        return publish(self.state, self.now_ns, routing, (T,), ()).targets[T]

    def factor(self, name: str = "input_uncached") -> tuple[float, bool]:
        billed = getattr(self.belief().billed, name)
        return billed.mean, billed.prior


def test_settlements_without_a_bill_are_priced_at_the_list_which_is_a_prior() -> None:
    story = Story()
    for _ in range(30):
        story.settle()
    belief = story.belief()
    for name in CLASSES:
        assert story.factor(name) == (1.0, True)
        listed, shown = getattr(PRICE, name), getattr(belief, f"price_{name}")
        assert (shown is None) == (listed is None)
        assert shown is None or (shown.mean, shown.prior) == (listed, True)


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.0, 1.2])
@pytest.mark.parametrize("told", [True, False])
def test_settlements_not_yet_reconciled_do_not_pull_it_to_the_list(factor: float, told: bool) -> None:
    story = Story()
    for _ in range(100):
        story.bill(factor, story.settle(), told=told)
    before = story.factor()
    for _ in range(100):
        story.settle()
    assert story.factor() == before
    for name in ("input_uncached", "cache_read", "cache_write_5m", "output"):
        mean, prior = story.factor(name)
        assert (mean, prior) == (pytest.approx(factor, rel=0.005), False)
    assert story.factor("cache_write_1h") == (1.0, True), "no token of it was billed"
    shown = story.belief().price_output
    assert shown is not None
    assert (shown.mean, shown.prior) == (pytest.approx(factor * 15 * USD, rel=0.005), False)


def test_bills_teach_the_same_one_by_one_and_in_batches() -> None:
    means = []
    for batch in (1, 20):
        story, open_ = Story(), []
        for _ in range(100):
            open_.append(story.settle())
            if len(open_) == batch:
                for price in open_:
                    story.bill(0.8, price)
                open_ = []
        means.append(story.factor()[0])
    assert means == [pytest.approx(0.8, rel=0.002)] * 2


@pytest.mark.parametrize("told", [True, False])
def test_a_dated_change_acts_at_once_on_what_was_learned_before_it(told: bool) -> None:
    story = Story(DATED)
    for _ in range(50):
        story.bill(0.8, story.settle(), told=told)
    before = story.factor()
    story.now_ns = DATED[1].from_ns
    shown = story.belief().price_output
    assert shown is not None
    assert story.factor() == before
    assert (shown.mean, shown.prior) == (pytest.approx(0.8 * 5 * USD, rel=0.005), False)


def test_a_bill_is_held_against_the_price_its_attempt_was_settled_at() -> None:
    """Bills come weeks later, when the list may be another."""
    story = Story(DATED)
    old = [story.settle() for _ in range(40)]
    story.now_ns = DATED[1].from_ns
    story.settle()
    for price in old:
        story.bill(0.9, price)
    assert story.factor() == (pytest.approx(0.9, rel=0.005), False)


def test_tiers_and_long_prompts_are_held_against_their_own_prices() -> None:
    tiered = msgspec.structs.replace(
        PRICE,
        variants=(
            VariantPrice(service_tier="flex", input_uncached=USD, output=7 * USD),
            VariantPrice(above_input_tokens=10_000, input_uncached=6 * USD),
        ),
    )
    story = Story((tiered,))
    uses = [
        TOKENS,
        msgspec.structs.replace(TOKENS, service_tier="flex"),
        msgspec.structs.replace(TOKENS, input_uncached=50_000),
    ]
    for k in range(90):
        tokens = uses[k % 3]
        story.bill(0.8, story.settle(tokens), tokens)
    assert story.factor() == (pytest.approx(0.8, rel=0.005), False)


def test_fees_beside_the_tokens_are_no_discount_and_no_surcharge() -> None:
    parts = PartPrices(web_search=10_000 * USD, reasoning=20 * USD)
    price = ListPrice(input_uncached=3 * USD, output=15 * USD, parts=parts)
    story = Story()
    tokens = Tokens(input_uncached=1_000, output=100, reasoning=60, web_searches=3)
    for _ in range(20):
        story.settle(tokens)
        story.bill(1.0, price, tokens)
    assert story.factor() == (pytest.approx(1.0, rel=0.001), False)


def test_a_target_without_a_list_price_has_none_and_learns_nothing() -> None:
    story = Story(())
    story.bill(0.8, story.settle())
    belief = story.belief()
    assert belief.price_input_uncached is None
    assert story.factor() == (1.0, True)


def test_the_state_goes_on_where_it_stood() -> None:
    story = Story(DATED)
    for told in (True, False):
        story.bill(0.8, story.settle(), told=told)
    row = msgspec.json.decode(msgspec.json.encode(story.state.target_row(T)), type=Row)
    again = Story(DATED)
    again.state.load(row, 0)
    again.now_ns = story.now_ns
    for each in (story, again):
        each.bill(0.7, each.target.list_price(each.now_ns), told=False)
    assert again.state.target_row(T) == story.state.target_row(T)
    assert again.factor() == story.factor() != (1.0, True)


def old_row(list_prices: list[float]) -> Row:
    """Of version 8: the list price stood in the seventh place of a class, and settlements counted as bills."""
    fresh = Story().settled_row()
    learned = [21.8, 1e-5, 1.0, 60.0, 0.0, 5.0]
    return Row(
        fold=8,
        subject="target:t",
        version=9,
        cooldown=Cooldown(),
        health=fresh.health,
        ttft=fresh.ttft,
        speed=fresh.speed,
        length=fresh.length,
        prices=[[*learned, listed, 0.0, 0.0, 40.0, 40.0, 1.7e12] for listed in list_prices],
    )


def test_a_state_that_took_list_prices_for_bills_begins_anew_with_the_list_price_it_knew() -> None:
    row = upcast_row(old_row([3.0 * USD, -1.0, -1.0, -1.0, 15.0 * USD]))
    assert (row.fold, row.listed) == (FOLD_VERSION, ListPrice(input_uncached=3 * USD, output=15 * USD))
    story = Story()
    story.state.load(old_row([3.0 * USD, -1.0, -1.0, -1.0, 15.0 * USD]), 0)
    assert story.factor() == (1.0, True)
    story.bill(0.8, ListPrice(input_uncached=3 * USD, output=15 * USD), told=False)
    assert story.factor()[0] < 0.85


def test_a_state_of_before_without_a_list_price_has_none() -> None:
    assert upcast_row(old_row([-1.0] * 5)).listed is None
    assert upcast_row(old_row([])).listed is None


class Quiet:
    def dead_letter(self, record: Record, error: str) -> None:
        raise AssertionError(error)

    def stopped(self, where: TopicPartition, error: str) -> None:
        raise AssertionError(error)


@pytest.mark.parametrize(("fold", "told"), [(8, True), (FOLD_VERSION, False)])
async def test_what_an_older_version_told_of_a_target_is_told_anew_at_once_without_a_signal(
    fold: int, told: bool
) -> None:
    """Else one that nobody uses would be priced by it for ever."""
    clock = ManualClock(START_NS)
    log = MemoryEventLog(clock)
    row = old_row([3.0 * USD] * 5) if fold == 8 else Story().settled_row()
    partition = partition_of("t")
    await log.append([Outgoing(STATE.name, partition, b"target:t", msgspec.json.encode(row))])
    engine = Engine(log, clock, make_ids(clock), Routing(targets=(Story().target,)), Quiet(), 0.25)
    await engine.open()
    await engine.commit()
    rows, _ = await log.latest(SNAPSHOTS.name, [partition])
    found = rows.get(b"target:t")
    assert (found is not None) is told
    if found is not None:
        snapshot = codec.decode_data(codec.decode_envelope(found.value or b""))
        assert isinstance(snapshot, RateSnapshot)
        assert snapshot.version == row.version + 1
        assert snapshot.target is not None
        assert snapshot.target.billed is not None
    await engine.close()
