"""No number in a record stops the estimator or a read model: what cannot be held is told and left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.history import History, append
from support.journals import make_ids
from support.read_model import Heard, memory_log, running
from tidegate.analytics.ledger import read_ledger
from tidegate.estimator.engine import Engine
from tidegate.events import codec, topics
from tidegate.events.clock import ManualClock
from tidegate.events.config import Routing
from tidegate.events.errors import BeyondBounds, NotAnEnvelope, UnknownEvent
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import Outgoing, Record, TopicPartition
from tidegate.events.partition import PARTITIONS
from tidegate.events.registry import CURRENT, STRUCTS, TOPIC_OF
from tidegate.planner.admission import FOREVER_NS

GOLDEN = Path(__file__).parent / "golden"
NOT_FOLDED = {"ConfigPublished", "DeadLetter"}
"""Of an operator's own making, bounded when it is read; and what consumers write themselves."""
SAMPLES = [
    sample
    for path in sorted(GOLDEN.glob("*.json"))
    if (sample := json.loads(path.read_bytes()))["type"] not in NOT_FOLDED
]
for _sample in SAMPLES:
    if _sample["data"].get("evidence") is False:
        _sample["data"]["evidence"] = True  # so that all of it teaches
TOO_LARGE = (2**63, 10**25, -(10**25))
EXTREMES = (*TOO_LARGE, 2**63 - 1, 4 * 10**18, -2 * 10**18, 10**17, -(10**12), 0)

SEED = ("seed",)
"""Of 64 bits without a sign: read models look at it themselves."""

SEED = ("seed",)
"""Of 64 bits without a sign: read models look at it themselves."""

Path_ = tuple[str | int, ...]


def integers(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Where integers stand in a JSON value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from integers(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from integers(inner, (*path, place))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield path


def changed(sample: Any, path: Path_, number: Any) -> Any:
    copy: Any = json.loads(json.dumps(sample))
    inner = copy
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = number
    return copy


def named(sample: Any, joined: str, subject: str) -> Any:
    """The sample of a source, target and pool of its own. Views join by what is `joined`: an event of each kind
    then meets one of every other."""
    ids = {name: f"{name}-{joined}" for name in ("attempt", "decision", "request")}
    ids |= {
        name: f"{name}-{subject}" for name in ("pool", "target") if isinstance(sample["data"].get(name), str)
    }
    data = sample["data"] | {name: ids[name] for name in ids.keys() & sample["data"].keys()}
    return {**sample, "source": f"s{subject}", "request": ids["request"], "data": data}


def hostile(*kinds: topics.Topic, numbers: tuple[int, ...] = EXTREMES) -> list[Outgoing]:
    """Every sample of these topics with each of its numbers changed, each a first event of its own source."""
    found: list[Outgoing] = []
    for sample in SAMPLES:
        home = TOPIC_OF[sample["type"]]
        for topic in kinds if home is None else [kind for kind in kinds if kind.name == home]:
            for at, path in enumerate(integers(sample)):
                for number in () if path == ("v",) else numbers:
                    event = changed(named(sample, f"{at}:{number}", f"{len(found)}"), path, number)
                    place = len(found) % PARTITIONS
                    found.append(Outgoing(topic.name, place, b"k", json.dumps(event).encode()))
    return found


def later(outgoing: Outgoing) -> Outgoing:
    """A sound event of the same subjects, behind one that may not be."""
    event = json.loads(outgoing.value or b"")
    kind, place = event["type"], event["source"][1:]
    sample = next(each for each in SAMPLES if each["type"] == kind)
    sound = {**named(sample, "later", place), "source": f"l{place}", "ts": sample["ts"] + 10**10}
    return outgoing._replace(value=json.dumps(sound).encode())


def is_sound(value: bytes) -> bool:
    try:
        codec.decode_data(codec.decode_envelope(value))
    except NotAnEnvelope:
        return False
    return True


def inside(kind: Any, path: str, over: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every integer type within a type, by its path; of a type within itself once."""
    if isinstance(kind, msgspec.inspect.Metadata):
        yield from inside(kind.type, path, over)
    elif isinstance(kind, msgspec.inspect.IntType):
        yield path, kind
    elif isinstance(kind, msgspec.inspect.StructType) and kind.cls not in over:
        for field in kind.fields:
            yield from inside(field.type, f"{path}.{field.name}", (*over, kind.cls))
    elif isinstance(kind, msgspec.inspect.UnionType):
        for each in kind.types:
            yield from inside(each, path, over)
    elif isinstance(kind, msgspec.inspect.TupleType):
        for each in kind.item_types:
            yield from inside(each, path, over)
    elif isinstance(kind, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
        yield from inside(kind.item_type, path, over)
    elif isinstance(kind, msgspec.inspect.DictType):
        yield from inside(kind.value_type, path, over)


@pytest.mark.parametrize("name", sorted(CURRENT.keys() - NOT_FOLDED))
def test_every_integer_of_an_event_has_bounds_within_64_bits(name: str) -> None:
    kind = msgspec.inspect.type_info(STRUCTS[name, CURRENT[name]])
    found = list(inside(kind, name))
    assert found or not any(integers([each["data"] for each in SAMPLES if each["type"] == name]))
    unbounded = [path for path, each in found if each.ge is None or each.le is None]
    assert unbounded == (["DecisionMade.seed"] if name == "DecisionMade" else [])


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["type"])
def test_a_number_beyond_bounds_is_told_with_its_event_and_field(sample: Any) -> None:
    for path in set(integers(sample["data"])) - {SEED}:
        for number in TOO_LARGE:
            envelope = codec.decode_envelope(json.dumps(changed(sample, ("data", *path), number)).encode())
            with pytest.raises(BeyondBounds) as told:
                codec.decode_data(envelope)
            assert sample["id"] in str(told.value)
            assert f"$.{path[0]}" in str(told.value)


def test_an_end_that_never_comes_is_in_bounds() -> None:
    sample = next(
        each for each in SAMPLES if each["type"] == "DecisionMade" and "tried_at_ns" in json.dumps(each)
    )
    for at, candidate in enumerate(sample["data"]["candidates"]):
        local = {**candidate.get("local", {}), "refusing_until_ns": FOREVER_NS}
        sample = changed(sample, ("data", "candidates", at, "local"), local)
    decision = codec.decode_data(codec.decode_envelope(json.dumps(sample).encode()))
    assert {each.local.refusing_until_ns for each in decision.candidates} == {FOREVER_NS}


def test_what_a_newer_build_may_know_still_stops_a_consumer() -> None:
    (sample,) = [each for each in SAMPLES if each["type"] == "FirstTokenSeen"]
    for wrong in ("1", 1.5, None, [1]):
        with pytest.raises(UnknownEvent):
            codec.decode_data(
                codec.decode_envelope(json.dumps(changed(sample, ("data", "ttft_ns"), wrong)).encode())
            )


@pytest.mark.slow  # opens a database
async def test_a_read_model_takes_all_but_the_records_it_cannot_hold(tmp_path: Path) -> None:
    day = History().day(5)
    log = await memory_log(hostile(*topics.BY_NAME.values()))
    await append(log, day.outgoing())
    heard = Heard()
    async with running(log, tmp_path / "m.duckdb", heard) as (runner, store):
        await runner.catch_up()
        assert heard.halts == []
        bad = sum(not is_sound(each.value or b"") for each in _folded(log))
        seeds = 2 * sum(
            each["type"] == "DecisionMade" for each in SAMPLES
        )  # 10**25 and -(10**25), one told here
        assert len(heard.dead) == runner.counts.poison == bad + seeds // 2 > 500
        views = store.connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        assert len(views) > 5
        for (view,) in views:
            store.connection.execute(f"SELECT * FROM {view}").fetchall()
        (served,) = store.connection.execute(
            "SELECT count(*) FROM r_requests WHERE source LIKE 'gw-_@%'"
        ).fetchall()
        assert served[0] == 5


def _folded(log: MemoryEventLog) -> list[Record]:
    kinds = {topics.REQUESTS.name, topics.SIGNALS.name, topics.SNAPSHOTS.name, topics.CONTROL.name}
    return [
        record
        for where, part in log.store.partitions.items()
        if where.topic in kinds
        for record in part.kept(where.topic)
    ]


class Alarms:
    def __init__(self) -> None:
        self.dead: list[str] = []

    def dead_letter(self, record: Record, error: str) -> None:
        self.dead.append(error)

    def stopped(self, where: TopicPartition, error: str) -> None:
        raise AssertionError(error)


async def test_an_estimator_folds_on_past_every_record_it_cannot_hold() -> None:
    clock, alarms = ManualClock(), Alarms()
    log = MemoryEventLog(clock)
    sent = hostile(topics.SIGNALS)
    day = History().day(5)
    await append(log, [*sent, *(later(each) for each in sent), *day.outgoing()])
    engine = Engine(log, clock, make_ids(), Routing(), alarms, 0.25)
    reader = log.reader(await engine.open())
    while records := await reader.poll(500, 0.0):
        engine.take(records)
    await engine.commit()
    assert len(alarms.dead) > 400
    behind = {each.draft.data.target for each in day.events if each.draft.type == "UsageSettled"}
    assert behind <= engine.state.targets.keys()
    again = Engine(log, clock, make_ids(), Routing(), alarms, 0.25)
    await again.open()
    assert again.state.targets.keys() == engine.state.targets.keys()
    for each in (reader, engine, again):
        await each.close()


async def test_a_ledger_is_read_past_a_correction_that_cannot_be_held() -> None:
    log = await memory_log([*hostile(topics.SIGNALS, numbers=TOO_LARGE), *History().day(5).outgoing()])
    clean = await read_ledger(await memory_log(History().day(5).outgoing()))
    found = await read_ledger(log)
    assert clean.entries.keys() <= found.entries.keys()
