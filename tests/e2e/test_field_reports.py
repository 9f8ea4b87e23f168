"""What users of other gateways report of money, streams and translation: each report is a promise here, kept to the
provider's bill. `REPORTS` says which number of the list is which promise, and which tests hold it."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import httpx
import openai
import pytest
from anthropic import AsyncAnthropic

from support.dialect_rig import CHATS, billed
from support.report_rig import (
    PAIRS,
    LeapingClock,
    ask,
    bodies,
    cached,
    lines,
    priced,
    report_rig,
    report_settings,
    thinking,
    unpriced,
    with_bills,
)
from support.report_traces import PATHS, input_of, leave, produced, seals, unmarked
from support.rig import KEY, PATIENCE_S, PRICES, Rig, provider, running_rig
from tidegate.analytics import reprice
from tidegate.simulator.faults import parse
from tidegate.simulator.server import RunningSimulator
from tidegate.simulator.shape_catalogue import USAGE_PLACES

QUESTION = "How high is the tide at the pier? " * 40
PARTS: list[dict[str, Any]] = [
    {"kind": "reasoning", "text": "先ず潮汐表を見る 🌊🌙, then é."},
    {"text": "満潮は「正午」です。👩‍👩‍👧‍👦 It's high tide — “twice”."},
    {"kind": "tool", "name": "look", "arguments": {"where": '港 né "b" \\ \n🛟'}},
]
SCRIPTED: dict[str, Any] = {
    "model": {"script": "work"},
    "scripts": [{"name": "work", "turns": [{"parts": PARTS}]}],
    "tokens_per_event": 2,
}
WRITTEN: dict[int, list[str]] = {
    1: [f"usage_at;where={place}" for place in USAGE_PLACES["openai"]],
    3: [f"usage_at;where={place}" for place in ("start", "end", "both", "larger")],
    17: ["write_cuts;at=letter", "escapes", "drip"],
    18: [
        *(f"line_ends;kind={kind}" for kind in ("crlf", "cr", "mixed")),
        "write_cuts;at=line,line_ends;kind=crlf",
        "no_space",
        "no_space,line_ends;kind=mixed",
        "bom",
        "data_lines",
    ],
    19: ["comments", "comments;every=2;place=inside"],
}
"""Report → the ways to write a stream that it is about; `drip` is one byte at a time."""
WRITER = {1: ("openai",), 3: ("anthropic",)}
"""Only that dialect's streams can be written so."""
UNTOLD = {"usage_at;where=null", "usage_at;where=late"}
"""Nothing is told before the stream ends: an estimate, and called one."""
SDK_LOST = {("anthropic", "bom"), ("anthropic", "usage_at;where=start")}
"""What the dialect's own SDK cannot read even from the provider itself."""
DRIPPED = tuple(zip(CHATS, (*CHATS[1:], CHATS[0]), strict=True))
"""Pairs whose streams also come one byte at a time: each dialect once on either side."""


def steering(shape: str) -> dict[str, str]:
    if shape == "drip":
        return {"x-sim-fault": "slow_drip;bytes=1;interval_ms=0"}
    return {"x-sim-shape": shape}


async def settled(rig: Rig, count: int) -> Any:
    """The settlement of the request with this number."""
    await rig.wait_event("RequestFinished", count)
    return rig.data("UsageSettled")[-1]


async def one_way(
    rig: Rig, simulator: RunningSimulator, pair: tuple[str, str], shape: str, count: int
) -> Any:
    """What is wrong with a stream written so; None when it reads as any other and costs what the provider bills."""
    client, upstream = pair
    told, due = rig.ledger(), billed(simulator)
    heard, _ = await ask(rig, client, upstream, QUESTION, headers=steering(shape) if shape else None)
    end = await settled(rig, count)
    if heard.text != PARTS[1]["text"] or heard.calls != [("look", PARTS[2]["arguments"])]:
        return heard
    if (end.basis == "estimated") != (shape in UNTOLD):
        return end
    if end.basis == "reported" and rig.ledger() - told != billed(simulator) - due:
        return rig.ledger() - told, billed(simulator) - due
    return None


@pytest.mark.parametrize("report", WRITTEN)
async def test_however_the_stream_is_written_it_reads_the_same_and_costs_what_is_billed(
    tmp_path: Path, report: int
) -> None:
    wrong: dict[Any, Any] = {}
    async with report_rig(tmp_path, **SCRIPTED) as (rig, simulator):
        count = 0
        for client, upstream in PAIRS:
            if upstream not in WRITER.get(report, CHATS):
                continue
            for shape in WRITTEN[report]:
                if client == upstream and (client, shape) in SDK_LOST:
                    continue
                if shape == "drip" and (client, upstream) not in DRIPPED:
                    continue
                count += 1
                found = await one_way(rig, simulator, (client, upstream), shape, count)
                if found is not None:
                    wrong[client, upstream, shape] = found
        assert wrong == {}
        assert {line.outcome for line in lines(simulator)} == {"completed"}
        assert (await with_bills(rig)).is_balanced
        hits = [data.tokens.cache_read for data in rig.data("UsageSettled") if data.basis == "reported"]
        assert sum(hit or 0 for hit in hits) > 0, (
            "prompts that come again are read from the cache, and counted"
        )


async def test_each_class_of_tokens_is_what_the_provider_counted_streamed_or_not(tmp_path: Path) -> None:
    async with report_rig(tmp_path) as (rig, simulator):
        for client, upstream in PAIRS:
            system = f"Client {client} at {upstream}. " * 60
            for stream in (False, True, False):
                turns = cached(client, system)
                heard, _ = await ask(
                    rig, client, upstream, turns, stream=stream, headers={"x-sim-output-tokens": "30"}
                )
                end = await settled(rig, len(lines(simulator)))
                counted = lines(simulator)[-1].tokens
                written = counted.cache_write_5m + counted.cache_write_1h
                whole = counted.input_uncached + counted.cache_read + written
                assert heard.tokens == (whole, counted.cache_read, counted.output), (client, upstream, stream)
                ours = end.tokens
                assert (
                    ours.input_uncached,
                    ours.cache_read or 0,
                    (ours.cache_write_5m or 0) + (ours.cache_write_1h or 0),
                    ours.output,
                ) == (counted.input_uncached, counted.cache_read, written, counted.output)
                assert end.cost_nanousd == lines(simulator)[-1].cost_nanousd
            before, after = [line.cost_nanousd for line in lines(simulator)[-2:]]
            assert before == after, "the same call costs the same, streamed or not"
            assert lines(simulator)[-1].tokens.cache_read > 0
        assert rig.ledger() == billed(simulator) > 0


async def test_a_usage_of_zero_is_what_was_said_and_costs_nothing(tmp_path: Path) -> None:
    async with report_rig(tmp_path, **SCRIPTED) as (rig, simulator):
        for client, upstream in PAIRS:
            for stream in (True, False):
                headers = {"x-sim-shape": "zero_usage"}
                heard, _ = await ask(rig, client, upstream, QUESTION, stream=stream, headers=headers)
                end = await settled(rig, len(lines(simulator)))
                assert (end.basis, end.tokens.input_uncached, end.tokens.output, end.cost_nanousd) == (
                    "reported",
                    0,
                    0,
                    0,
                )
                assert heard.tokens == (0, 0, 0)
        assert rig.ledger() == billed(simulator) == 0


async def leaving(folder: Path, places: list[int], tokens_per_s: int, together: int = 18) -> None:
    pace = {"ttft_ms": 1, "tokens_per_s": tokens_per_s}
    async with report_rig(folder, latency=pace) as (rig, simulator):
        todo = [(*pair, place) for place in places for pair in PAIRS]
        for at in range(0, len(todo), together):
            await asyncio.gather(*(leave(rig, *each, words=QUESTION) for each in todo[at : at + together]))
        await rig.wait_event("RequestFinished", len(todo))
        ends = rig.data("UsageSettled")
        started = [data.attempt for data in rig.data("AttemptStarted")]
        assert sorted(end.attempt for end in ends) == sorted(started), "one settlement an attempt"
        assert {(end.basis, end.outcome) for end in ends} == {("estimated", "cancelled")}
        async with asyncio.timeout(PATIENCE_S):
            while any(line.outcome is None for line in lines(simulator)):
                await asyncio.sleep(0.01)
        counted = {line.attempt: line for line in lines(simulator)}
        far = {
            end.attempt: (produced(end), counted[end.attempt].tokens.output)
            for end in ends
            if abs(produced(end) - counted[end.attempt].tokens.output)
            > max(0.02 * counted[end.attempt].tokens.output, LAG_TOKENS)
        }
        assert far == {}
        found = await with_bills(rig)
        assert found.is_balanced, "with the bill the ledger is the invoice"
        assert found.after.nanousd == billed(simulator)


LAG_TOKENS = 12
"""What a provider may make between a client's leaving and its learning of it, on a busy machine."""


async def test_whoever_leaves_a_stream_is_settled_once_near_the_truth_and_exactly_with_the_bill(
    tmp_path: Path,
) -> None:
    await leaving(tmp_path, [0, 1, 3, 8], tokens_per_s=40)


@pytest.mark.nightly
async def test_leaving_at_every_piece_of_an_answer_is_always_settled(tmp_path: Path) -> None:
    await leaving(tmp_path, list(range(112)), tokens_per_s=100)


@pytest.mark.parametrize("upstream", CHATS)
@pytest.mark.parametrize("made", ["nothing", "all"])
async def test_whoever_leaves_a_whole_answer_owes_no_less_than_is_billed_and_exactly_that_with_the_bill(
    tmp_path: Path, upstream: str, made: str
) -> None:
    """Before the answer was begun, and when all of it was made: the provider bills what it has made. Where answers
    are not read on for their bill: see `test_read_on`."""
    slow: dict[str, Any] = {"latency": {"ttft_ms": 5_000, "tokens_per_s": 0}}
    if made == "all":
        slow = {"faults": [{"kind": "mid_stream_stall", "params": {"seconds": "60"}}]}
    async with report_rig(tmp_path, target='when_abandoned = "cancel"\n', **slow) as (rig, simulator):
        asking = asyncio.ensure_future(leave(rig, upstream, upstream, 1, stream=False, words=QUESTION))
        async with asyncio.timeout(PATIENCE_S):
            while not lines(simulator) or (made == "all" and lines(simulator)[0].status is None):
                await asyncio.sleep(0.005)
        asking.cancel()
        end = await settled(rig, 1)
        async with asyncio.timeout(PATIENCE_S):
            while lines(simulator)[0].outcome is None:
                await asyncio.sleep(0.005)
        assert (end.basis, end.outcome) == ("estimated", "cancelled")
        assert lines(simulator)[0].tokens.output == {"nothing": 0, "all": 400}[made]
        assert end.cost_nanousd >= billed(simulator) > 0
        found = await with_bills(rig)
        assert found.is_balanced
        assert found.after.nanousd == billed(simulator)


async def all_leave(folder: Path, ttft_ms: int) -> None:
    """Each client at each upstream, gone before a word came of an answer without a stream."""
    async with report_rig(folder, latency={"ttft_ms": ttft_ms, "tokens_per_s": 0}) as (rig, simulator):
        asking = [
            asyncio.ensure_future(leave(rig, *pair, 1, stream=False, words=f"how high, {pair}?"))
            for pair in PAIRS
        ]
        async with asyncio.timeout(PATIENCE_S):
            while len(lines(simulator)) < len(PAIRS):
                await asyncio.sleep(0.005)
        for each in asking:
            each.cancel()
        finished = await rig.wait_event("RequestFinished", len(PAIRS))
        assert {data.outcome for data in finished} == {"cancelled"}
        ends = rig.data("UsageSettled")
        assert {(end.basis, end.outcome) for end in ends} == {("reported", "completed")}
        assert {end.attempt: end.cost_nanousd for end in ends} == {
            line.attempt: line.cost_nanousd for line in lines(simulator)
        }
        assert rig.ledger() == billed(simulator) > 0, "from the answers alone"


async def test_whoever_leaves_a_whole_answer_is_charged_what_the_provider_reports(tmp_path: Path) -> None:
    await all_leave(tmp_path, 500)


@pytest.mark.nightly
async def test_whoever_leaves_a_whole_answer_of_three_seconds_is_charged_what_the_provider_reports(
    tmp_path: Path,
) -> None:
    await all_leave(tmp_path, 3_000)


async def test_a_model_that_no_route_names_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    async with report_rig(tmp_path) as (rig, simulator), httpx.AsyncClient(timeout=PATIENCE_S) as http:
        for client in CHATS:
            asked = {"model": "m-2026-01-01", "input": "hi", "max_tokens": 9}
            asked |= {} if client == "openai-responses" else {"messages": [{"role": "user", "content": "hi"}]}
            told = await http.post(
                rig.url + PATHS[client], json=asked, headers={"authorization": f"Bearer {KEY}"}
            )
            assert (told.status_code, told.json()["error"]["code"]) == (404, "route_unknown")
        assert lines(simulator) == []
        assert rig.data("AttemptStarted") == []


async def test_a_target_without_a_price_is_not_used_as_if_it_were_free_until_it_has_one(
    tmp_path: Path,
) -> None:
    async with report_rig(tmp_path, prices={}) as (rig, simulator):
        for upstream in CHATS:
            with pytest.raises(
                (openai.InternalServerError, anthropic.InternalServerError), match="price_unknown"
            ):
                await ask(rig, upstream, upstream, QUESTION)
        assert lines(simulator) == []
        assert rig.data("AttemptStarted") == []
        told = await rig.wait_event("RequestRefused", len(CHATS))
        assert {(refused.code, refused.status) for refused in told} == {("nothing_admitted", 503)}
        verdicts = [each for decision in rig.data("DecisionMade") for each in decision.candidates]
        assert [each.reason for each in verdicts] == ["price_unknown"] * len(CHATS)
        assert rig.role.worker.tally.refused == len(CHATS), "it shows in the metrics"
        assert rig.role.worker.targets_without_price() == len(CHATS), "and so does why"
        before = rig.serving_digest()
        await rig.publish(report_settings(simulator, priced()).routing())
        async with asyncio.timeout(PATIENCE_S):
            while rig.serving_digest() == before:
                await asyncio.sleep(0.005)
        for upstream in CHATS:
            await ask(rig, upstream, upstream, QUESTION)
        await rig.wait_event("UsageSettled", len(CHATS))
        assert rig.ledger() == billed(simulator) > 0
        assert rig.role.worker.targets_without_price() == 0


async def test_what_was_settled_without_a_price_is_given_the_one_that_is_added_and_equals_the_bill(
    tmp_path: Path,
) -> None:
    """As if the targets had had none: streamed and not, and left by the client, of which only a bill can tell."""
    async with report_rig(tmp_path) as (rig, simulator):
        for pair, stream in itertools.product(PAIRS, (True, False)):
            await ask(rig, *pair, QUESTION, stream=stream)
        await leave(rig, "openai", "openai", 1, words=QUESTION)
        await rig.wait_event("RequestFinished", 2 * len(PAIRS) + 1)
        ledger = unpriced(rig)
        found = reprice.plan(ledger, rig.machine.settings.routing())
        left = [end for end in rig.data("UsageSettled") if end.outcome == "cancelled"]
        assert found.without_usage == tuple(end.attempt for end in left)
        assert (found.before.unpriced, found.after.unpriced) == (2 * len(PAIRS) + 1, 1)
        assert found.after.nanousd == sum(
            line.cost_nanousd for line in lines(simulator) if line.attempt not in found.without_usage
        )
        priceless = report_settings(simulator, "").routing()
        assert len(reprice.plan(ledger, priceless).without_price) == 2 * len(PAIRS)


async def test_a_dated_name_in_the_answer_changes_no_price(tmp_path: Path) -> None:
    async with report_rig(tmp_path) as (rig, simulator):
        for client, upstream in PAIRS:
            headers = {"x-sim-fault": "wrong_model;model=m-2026-01-01"}
            await ask(rig, client, upstream, QUESTION, headers=headers)
            assert (await settled(rig, len(lines(simulator)))).model == "m-2026-01-01"
        assert rig.ledger() == billed(simulator) > 0


async def hush(folder: Path, ping_s: float, seconds: float, pairs: list[tuple[str, str]]) -> None:
    """Silence before the first token, with or without the provider's own signs of life."""
    fault = f"first_token_stall;seconds={seconds};ping_s={ping_s}"
    async with report_rig(folder, **SCRIPTED) as (rig, simulator):
        heard = await asyncio.gather(
            *(ask(rig, *pair, QUESTION, headers={"x-sim-fault": fault}) for pair in pairs)
        )
        assert {answer.text for answer, _ in heard} == {PARTS[1]["text"]}
        await rig.wait_event("RequestFinished", len(pairs))
        assert {data.outcome for data in rig.data("RequestFinished")} == {"completed"}
        assert rig.ledger() == billed(simulator) > 0


@pytest.mark.parametrize("ping_s", [0, 0.1])
async def test_silence_is_bridged_in_a_form_that_every_sdk_takes(tmp_path: Path, ping_s: float) -> None:
    await hush(tmp_path, ping_s, 0.7, PAIRS)


@pytest.mark.nightly
async def test_a_minute_of_silence_with_pings_is_bridged(tmp_path: Path) -> None:
    await hush(tmp_path, 15, 60, PAIRS)


class HeldClock(LeapingClock):
    """A provider's time stands still at every fifth word until its client has heard more than at the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = asyncio.Event()
        self.holds = 0
        self._words = 0

    async def sleep(self, duration_s: float) -> None:
        self._words += 1
        if self._words % 5 == 0:
            await self.heard.wait()
            self.heard.clear()
            self.holds += 1


async def test_what_a_provider_writes_is_passed_on_while_it_still_writes(tmp_path: Path) -> None:
    """Thoughts, too: the provider says no more before the client has what it said."""
    clock = HeldClock()
    model = {"reasoning_tokens": 12, "reasoning_visible": True}
    async with report_rig(tmp_path, latency={"ttft_ms": 1, "tokens_per_s": 60}, model=model, clock=clock) as (
        rig,
        simulator,
    ):

        async def listen(client: str, upstream: str) -> int:
            asked: dict[str, Any] = {"model": f"to-{upstream}", "stream": True, "max_tokens": 500}
            asked |= (
                {"input": QUESTION}
                if client == "openai-responses"
                else {"messages": [{"role": "user", "content": QUESTION}]}
            )
            headers = {"authorization": f"Bearer {KEY}", "x-sim-output-tokens": "40"}
            before = clock.holds
            clock.heard.clear()
            async with (
                httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as http,
                http.stream("POST", rig.url + PATHS[client], json=asked, headers=headers) as answer,
            ):
                async for data in answer.aiter_raw():
                    if b"delta" in data:  # signs of life are no words
                        clock.heard.set()
            return clock.holds - before

        found = {pair: await listen(*pair) for pair in PAIRS}
        assert min(found.values()) >= 6, found
        await rig.wait_event("RequestFinished", len(PAIRS))
        assert rig.ledger() == billed(simulator) > 0


SEALED: dict[str, Any] = {
    "model": {"script": "talk"},
    "scripts": [
        {
            "name": "talk",
            "turns": [
                {
                    "parts": [
                        {"kind": "reasoning", "text": f"thought {turn} é🌊"},
                        {"kind": "redacted", "text": f"hidden {turn}"},
                        {"text": f"word {turn}"},
                    ]
                }
                for turn in range(4)
            ],
        }
    ],
}


@pytest.mark.parametrize(("client", "upstream"), [pair for pair in PAIRS if pair[1] != "openai"])
async def test_sealed_thoughts_come_back_to_their_provider_to_the_last_byte(
    tmp_path: Path, client: str, upstream: str
) -> None:
    async with report_rig(tmp_path, **SEALED) as (rig, simulator):
        turns: list[Any] = [{"role": "user", "content": "begin"}]
        for turn in range(4):
            heard, items = await ask(
                rig, client, upstream, turns, stream=client != "openai", **thinking(client)
            )
            assert heard.text == f"word {turn}"
            turns += [*items, {"role": "user", "content": "go on"}]
        sent = seals(bodies(simulator)[-1])
        assert len(sent) >= 3
        assert sent[: len(sent) // 3] == seals(bodies(simulator)[1])
        await rig.wait_event("RequestFinished", 4)
        assert rig.ledger() == billed(simulator) > 0
        if client == upstream == "anthropic":
            forged = copy.deepcopy(turns)
            forged[1]["content"][0]["signature"] = "A" + forged[1]["content"][0]["signature"][1:]
            await ask(rig, client, upstream, forged)
            refused, told = (seals(body) for body in bodies(simulator)[-2:])
            assert refused == seals(forged)
            assert told == seals(turns[2:]), "the turn that was changed goes without, the others as they were"


async def test_a_conversation_that_changes_its_provider_leaves_the_seals_behind_and_says_so(
    tmp_path: Path,
) -> None:
    """Each provider refuses thoughts that it has not signed: a turn that is answered shows that none was sent."""
    sealed = {"scripts": SEALED["scripts"], "models": [{"name": "m", **PRICES, "script": "talk"}]}
    providers = [
        provider("one", faults=[{"kind": "503", "every_n": 2}], **sealed),
        provider("two", keep_requests=9, **sealed),
    ]
    async with (
        running_rig(tmp_path, providers) as rig,
        AsyncAnthropic(base_url=rig.url, api_key=KEY, max_retries=0) as sdk,
    ):
        turns: Any = [{"role": "user", "content": "begin"}]
        told: list[tuple[str | None, str | None]] = []
        for turn in range(2):
            got = await sdk.messages.with_raw_response.create(model="messages", max_tokens=99, messages=turns)
            told.append((got.headers.get("x-tidegate-target"), got.headers.get("x-tidegate-warnings")))
            answer: Any = await got.parse()
            assert [block.type for block in answer.content] == ["thinking", "redacted_thinking", "text"]
            assert answer.content[-1].text == f"word {turn}"
            content = [block.model_dump(exclude_none=True) for block in answer.content]
            turns += [{"role": "assistant", "content": content}, {"role": "user", "content": "go on"}]
        assert told == [("one-anthropic", None), ("two-anthropic", "left out: thinking")]
        (request,) = rig.simulator.engines["two"].log.requests
        assert "word 0" in request["body"]
        assert seals(json.loads(request["body"])) == []
        await rig.wait_event("RequestFinished", 2)
        assert rig.ledger() == rig.invoice() > 0


async def test_two_equal_calls_are_sent_as_the_same_bytes_and_the_second_is_read_from_the_cache(
    tmp_path: Path,
) -> None:
    async with report_rig(tmp_path, **SEALED) as (rig, simulator):
        for client, upstream in PAIRS:
            turns = cached(client, f"{client} to {upstream}. " + QUESTION)
            _, items = await ask(rig, client, upstream, turns)
            await ask(rig, client, upstream, turns)
            first, second = (request["body"] for request in list(simulator.engines["one"].log.requests)[-2:])
            assert first == second, (client, upstream)
            longer = [*turns, *items, {"role": "user", "content": "and then? " * 40}]
            await ask(rig, client, upstream, longer)
            name = "input" if upstream == "openai-responses" else "messages"
            before, after = (body[name] for body in bodies(simulator)[-2:])
            assert unmarked(after[: len(before)]) == unmarked(before), (client, upstream)
            fresh, again, grown = lines(simulator)[-3:]
            assert fresh.tokens.cache_read == 0
            assert again.tokens.cache_read > 0.8 * input_of(fresh)
            assert grown.tokens.cache_read >= again.tokens.cache_read
        await rig.wait_event("RequestFinished", len(lines(simulator)))
        assert rig.ledger() == billed(simulator) > 0


@pytest.mark.parametrize("upstream", ["anthropic", "openai"])
async def test_cache_marks_of_a_client_reach_a_provider_that_takes_them(
    tmp_path: Path, upstream: str
) -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    async with report_rig(tmp_path) as (rig, simulator):
        system = [{"type": "text", "text": QUESTION, "cache_control": mark}]
        for _ in range(2):
            await ask(rig, "anthropic", upstream, "hi", system=system)
        assert json.dumps(bodies(simulator)[-1]).count(json.dumps(mark)) == 1
        fresh, again = (line.tokens for line in lines(simulator))
        assert upstream == "openai" or fresh.cache_write_1h > 0
        assert (fresh.cache_read, again.cache_read > 0) == (0, True)
        await rig.wait_event("RequestFinished", 2)
        assert rig.ledger() == billed(simulator) > 0


class Report(NamedTuple):
    """What we promise where others failed, and who says so."""

    promise: str
    tests: tuple[Callable[..., Any], ...]


WRITTEN_SO = test_however_the_stream_is_written_it_reads_the_same_and_costs_what_is_billed
REPORTS: dict[int, Report] = {
    1: Report("usage counts wherever in the stream it stands, cache reads included", (WRITTEN_SO,)),
    2: Report(
        "classes of tokens do not overlap, and a call costs the same streamed or not",
        (test_each_class_of_tokens_is_what_the_provider_counted_streamed_or_not,),
    ),
    3: Report("counts of an opening and a closing event replace each other", (WRITTEN_SO,)),
    5: Report(
        "a client that leaves a stream is settled exactly once",
        (
            test_whoever_leaves_a_stream_is_settled_once_near_the_truth_and_exactly_with_the_bill,
            test_leaving_at_every_piece_of_an_answer_is_always_settled,
        ),
    ),
    6: Report("zero is a number", (test_a_usage_of_zero_is_what_was_said_and_costs_nothing,)),
    7: Report(
        "a client that leaves a whole answer owes it",
        (
            test_whoever_leaves_a_whole_answer_is_charged_what_the_provider_reports,
            test_whoever_leaves_a_whole_answer_of_three_seconds_is_charged_what_the_provider_reports,
            test_whoever_leaves_a_whole_answer_owes_no_less_than_is_billed_and_exactly_that_with_the_bill,
        ),
    ),
    9: Report(
        "no price is not a price of nothing",
        (
            test_a_model_that_no_route_names_is_refused_before_anything_is_paid,
            test_a_target_without_a_price_is_not_used_as_if_it_were_free_until_it_has_one,
            test_what_was_settled_without_a_price_is_given_the_one_that_is_added_and_equals_the_bill,
            test_a_dated_name_in_the_answer_changes_no_price,
        ),
    ),
    17: Report("letters cut by a read stay whole", (WRITTEN_SO,)),
    18: Report("every line end and colon of the standard", (WRITTEN_SO,)),
    19: Report(
        "comments and silence break no client",
        (
            WRITTEN_SO,
            test_silence_is_bridged_in_a_form_that_every_sdk_takes,
            test_a_minute_of_silence_with_pings_is_bridged,
        ),
    ),
    21: Report(
        "what has come is passed on at once, thoughts too",
        (test_what_a_provider_writes_is_passed_on_while_it_still_writes,),
    ),
    22: Report(
        "opaque thoughts keep every byte, and go to nobody else",
        (
            test_sealed_thoughts_come_back_to_their_provider_to_the_last_byte,
            test_a_conversation_that_changes_its_provider_leaves_the_seals_behind_and_says_so,
        ),
    ),
    24: Report(
        "translation keeps the prefix, and the marks in it",
        (
            test_two_equal_calls_are_sent_as_the_same_bytes_and_the_second_is_read_from_the_cache,
            test_cache_marks_of_a_client_reach_a_provider_that_takes_them,
        ),
    ),
}


def test_every_way_of_writing_belongs_to_a_report_and_to_the_simulator() -> None:
    assert set(WRITTEN) <= {number for number, report in REPORTS.items() if WRITTEN_SO in report.tests}
    for shape in (
        each for ways in WRITTEN.values() for way in ways if way != "drip" for each in way.split(",")
    ):
        parse(shape)
