"""Every fault of the catalogue does what it says, and bills what it says."""

import asyncio
import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from tidegate.simulator.actions import Body, Close, End, Head, Raw, Reset
from tidegate.simulator.faults import CATALOGUE, STATUSES, FaultUnknown, check, parse
from tidegate.simulator.framing import render_body, render_head
from unit.simulator.rig import Bench, body_of, chat, headers_of, last_line, message, request, status_of

MESSAGES = "/v1/messages"
TOKENS = 20
BILL_ALL = ("completed", TOKENS)
NO_BILL = ("failed", None)
REFUSED = ("refused", None)

# kind: (outcome and billed output of a stream, of a whole answer), 20 tokens long, default parameters
ENDS: dict[str, tuple[tuple[str, int | None], tuple[str, int | None]]] = {
    "header_stall": (BILL_ALL, BILL_ALL),
    "first_token_stall": (BILL_ALL, BILL_ALL),
    "mid_stream_stall": (BILL_ALL, BILL_ALL),
    "cut": (("cut", 4), ("cut", TOKENS)),
    "rst": (("cut", 0), ("cut", TOKENS)),
    "malformed_event": (BILL_ALL, BILL_ALL),
    "missing_terminal": (BILL_ALL, BILL_ALL),
    "truncated_json": (("cut", 10), ("cut", TOKENS)),
    "billed_no_bytes": (("lost", TOKENS), ("lost", TOKENS)),
    "close_no_bytes": (NO_BILL, NO_BILL),
    "error_200": (NO_BILL, NO_BILL),
    "wrong_model": (BILL_ALL, BILL_ALL),
    "slow_drip": (BILL_ALL, BILL_ALL),
    "compressed": (BILL_ALL, BILL_ALL),
    "garbage": (NO_BILL, NO_BILL),
    "garbage_body": (NO_BILL, NO_BILL),
    "hidden_usage": (BILL_ALL, BILL_ALL),
    **{str(status): (REFUSED, REFUSED) for status in STATUSES},
}

# Byte by byte, even virtual time takes its time.
QUICK = {"slow_drip": "slow_drip;bytes=100"}


async def struck(
    fault: str | None, *, stream: bool = True, path: str = "/v1/chat/completions"
) -> tuple[Bench, list[Any]]:
    bench = Bench(latency={"ttft_ms": 10, "tokens_per_s": 100})
    body = message(stream=stream) if path == MESSAGES else chat(stream=stream)
    headers = {} if fault is None else {"x_sim_fault": fault}
    return bench, await bench.ask(body, path, x_sim_output_tokens=str(TOKENS), **headers)


def texts(actions: list[Any]) -> int:
    """Content deltas that can be read, of either dialect."""
    count = 0
    for event in body_of(actions).split(b"\n\n"):
        data = event.partition(b"data: ")[2]
        try:
            fields = orjson.loads(data)
        except orjson.JSONDecodeError:
            continue
        delta = fields["choices"][0]["delta"] if fields.get("choices") else fields.get("delta", {})
        count += bool(delta.get("content") or delta.get("text"))
    return count


def test_the_table_of_endings_covers_the_catalogue() -> None:
    assert ENDS.keys() == CATALOGUE.keys()


@pytest.mark.parametrize("path", ["/v1/chat/completions", MESSAGES])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", CATALOGUE)
async def test_every_fault_ends_and_bills_as_the_table_says(kind: str, stream: bool, path: str) -> None:
    bench, actions = await struck(QUICK.get(kind, kind), stream=stream, path=path)
    outcome, output = ENDS[kind][0 if stream else 1]
    line = last_line(bench)
    assert (line.fault, line.outcome, line.billed) == (kind, outcome, output is not None)
    assert line.tokens.output == (output or 0)
    assert line.cost_nanousd == (0 if output is None else 3 * 3000 + output * 15_000)
    assert isinstance(actions[-1], End | Close | Reset)


@pytest.mark.parametrize("kind", CATALOGUE)
async def test_every_fault_without_a_bill_is_catalogued_so_and_uses_no_quota(kind: str) -> None:
    bench = Bench(windows=[{"duration_s": 1e9, "unit": "requests", "limit": 5}])
    await bench.ask(chat(stream=True), x_sim_fault=QUICK.get(kind, kind))
    (state,) = bench.engine.reception.account.states(bench.clock.now_s())
    assert (state.used == 0) == (CATALOGUE[kind].bill == "nothing")


@pytest.mark.parametrize("status", STATUSES)
async def test_error_statuses_have_the_vendors_shape(status: int) -> None:
    _, openai = await struck(str(status))
    assert status_of(openai) == status
    assert orjson.loads(body_of(openai))["error"].keys() == {"message", "type", "param", "code"}
    _, anthropic = await struck(str(status), path=MESSAGES)
    fields = orjson.loads(body_of(anthropic))
    assert (fields["type"], fields.keys()) == ("error", {"type", "error", "request_id"})
    assert fields["error"]["type"].endswith("_error") or fields["error"]["type"] == "request_too_large"


async def test_an_error_can_say_what_the_test_wants() -> None:
    fault = "429;code=insufficient_quota;type=insufficient_quota;message=Pay%20up%3B%20now;retry_after=8"
    _, actions = await struck(fault)
    error = orjson.loads(body_of(actions))["error"]
    assert (error["code"], error["type"]) == ("insufficient_quota", "insufficient_quota")
    assert error["message"] == "Pay up; now"
    assert headers_of(actions)["retry-after"] == "8"


async def test_an_error_can_be_a_web_page_and_retry_after_a_date() -> None:
    _, actions = await struck("502;body=html;retry_after=Wed%2C%2021%20Oct%202026%2007%3A28%3A00%20GMT")
    assert body_of(actions).startswith(b"<html>")
    assert headers_of(actions)["content-type"] == "text/html"
    assert headers_of(actions)["retry-after"] == "Wed, 21 Oct 2026 07:28:00 GMT"


@pytest.mark.parametrize(
    ("fault", "extra_s"),
    [
        ("header_stall;seconds=7", 7),
        ("first_token_stall;seconds=3;ping_s=1", 3),
        ("mid_stream_stall;seconds=5", 5),
    ],
)
async def test_a_stall_delays_the_answer_and_changes_nothing_else(fault: str, extra_s: float) -> None:
    plain_bench, plain = await struck(None)
    bench, actions = await struck(fault)
    took_s = last_line(bench).settled_s - last_line(bench).arrived_s  # type: ignore[operator]
    plain_s = last_line(plain_bench).settled_s - last_line(plain_bench).arrived_s  # type: ignore[operator]
    assert took_s == pytest.approx(plain_s + extra_s)
    assert texts(actions) == texts(plain) == TOKENS


async def stalled_after(fault: str, path: str = "/v1/chat/completions") -> list[Any]:
    """What has been sent when time has come to the middle of the stall."""
    bench = Bench()
    seen: list[Any] = []
    body = message(stream=True) if path == MESSAGES else chat(stream=True)

    async def watch() -> None:
        async for action in bench.engine.handle(
            request(body, path, x_sim_fault=fault, x_sim_output_tokens="20")
        ):
            seen.append(action)

    task = asyncio.ensure_future(watch())
    await bench.clock.advance(100)
    task.cancel()
    await asyncio.wait([task])
    return seen


async def test_stalls_come_where_they_are_told() -> None:
    assert await stalled_after("header_stall") == []
    first = await stalled_after("first_token_stall")
    assert isinstance(first[0], Head)
    assert (texts(first), b'"role":"assistant"' in body_of(first)) == (0, True)
    assert texts(await stalled_after("mid_stream_stall;after_tokens=7")) == 7


async def test_pings_can_fill_a_stall_without_being_content() -> None:
    pinged = await stalled_after("first_token_stall;ping_s=30", MESSAGES)
    assert body_of(pinged).count(b"event: ping") == 1 + 3
    assert b": keep-alive\n\n" in body_of(await stalled_after("first_token_stall;ping_s=30"))


@pytest.mark.parametrize("path", ["/v1/chat/completions", MESSAGES])
async def test_a_cut_comes_after_the_tokens_it_was_told(path: str) -> None:
    bench, actions = await struck("cut;after_tokens=13", path=path)
    assert (texts(actions), actions[-1], last_line(bench).tokens.output) == (13, Close(), 13)


async def test_a_cut_behind_the_last_token_still_withholds_the_terminal_event() -> None:
    _, actions = await struck("cut;after_tokens=999")
    assert texts(actions) == TOKENS
    assert b"[DONE]" not in body_of(actions)
    assert actions[-1] == Close()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_reset_by_body_byte_is_exact_at_every_byte(stream: bool) -> None:
    _, plain = await struck(None, stream=stream)
    whole = body_of(plain)
    for at in [*range(0, len(whole), 211), len(whole) - 1, len(whole)]:
        _, actions = await struck(f"rst;body_byte={at}", stream=stream)
        assert body_of(actions) == whole[:at]
        assert actions[-1] == Reset()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_reset_by_wire_byte_counts_head_and_framing(stream: bool) -> None:
    _, plain = await struck(None, stream=stream)
    wire, chunked = b"", False
    for action in plain:
        match action:
            case Head():
                chunked = action.length is None
                wire += render_head(action)
            case Body(data):
                wire += render_body(data, chunked=chunked)
            case End():
                wire += b"0\r\n\r\n" if chunked else b""
    for at in [0, 1, 20, len(render_head(plain[0])), 400, len(wire) - 1, len(wire)]:
        _, actions = await struck(f"rst;byte={at}", stream=stream)
        assert b"".join(action.data for action in actions if isinstance(action, Raw)) == wire[:at]
        assert actions[-1] == Reset()


@pytest.mark.parametrize("path", ["/v1/chat/completions", MESSAGES])
async def test_one_malformed_event_breaks_its_json_only(path: str) -> None:
    _, actions = await struck("malformed_event;after_tokens=2", path=path)
    broken = []
    for event in body_of(actions).split(b"\n\n"):
        data = event.partition(b"data: ")[2]
        if data not in (b"", b"[DONE]"):
            try:
                orjson.loads(data)
            except orjson.JSONDecodeError:
                broken.append(data)
    assert len(broken) == 1
    assert texts(actions) == TOKENS - 1


@pytest.mark.parametrize("kind", ["malformed_event", "truncated_json"])
async def test_a_whole_body_can_be_broken_json_in_intact_framing(kind: str) -> None:
    _, actions = await struck(kind, stream=False)
    head, *_, end = actions
    assert (head.length, end) == (len(body_of(actions)), End())
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(body_of(actions))


@pytest.mark.parametrize(
    ("path", "terminal"), [("/v1/chat/completions", b"[DONE]"), (MESSAGES, b"message_stop")]
)
async def test_a_missing_terminal_leaves_everything_else(path: str, terminal: bytes) -> None:
    _, actions = await struck("missing_terminal", path=path)
    assert terminal not in body_of(actions)
    assert texts(actions) == TOKENS
    assert actions[-1] == End()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", ["billed_no_bytes", "close_no_bytes"])
async def test_a_close_without_a_byte_sends_nothing(kind: str, stream: bool) -> None:
    _, actions = await struck(kind, stream=stream)
    assert actions == [Close()]


async def test_an_error_with_status_200_comes_before_any_content() -> None:
    _, stream = await struck("error_200", path=MESSAGES)
    assert status_of(stream) == 200
    assert body_of(stream).startswith(b"event: error\ndata: ")
    assert b"overloaded_error" in body_of(stream)
    _, whole = await struck("error_200;status=429;code=oops", stream=False)
    assert orjson.loads(body_of(whole))["error"]["code"] == "oops"


async def test_an_error_in_mid_stream_bills_what_came_before() -> None:
    bench, actions = await struck("error_200;after_tokens=6")
    assert texts(actions) == 6
    assert b'data: {"error":' in body_of(actions)
    assert (last_line(bench).outcome, last_line(bench).tokens.output) == ("cut", 6)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_wrong_model_is_named_in_the_answer_and_billed_as_the_one_asked_for(stream: bool) -> None:
    bench, actions = await struck("wrong_model;model=m-mini", stream=stream)
    assert b'"model":"m-mini"' in body_of(actions)
    assert b'"model":"m"' not in body_of(actions)
    assert (last_line(bench).model, last_line(bench).served_model) == ("m", "m-mini")


async def test_a_slow_drip_sends_pieces_at_intervals_and_loses_nothing() -> None:
    _, plain = await struck(None, stream=False)
    bench, dripped = await struck("slow_drip;bytes=10;interval_ms=20", stream=False)
    assert body_of(dripped) == body_of(plain)
    pieces = [action.data for action in dripped if isinstance(action, Body)]
    assert {len(piece) for piece in pieces[:-1]} == {10}
    line = last_line(bench)
    assert line.settled_s - line.arrived_s == pytest.approx(0.2 + 0.02 * (len(pieces) - 1))  # type: ignore[operator]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_compressed_answer_unpacks_to_the_plain_one(stream: bool) -> None:
    _, plain = await struck(None, stream=stream)
    _, packed = await struck("compressed", stream=stream)
    assert headers_of(packed)["content-encoding"] == "gzip"
    assert gzip.decompress(body_of(packed)) == body_of(plain)


async def test_garbage_is_no_http_and_seeded() -> None:
    _, first = await struck("garbage;bytes=300")
    _, again = await struck("garbage;bytes=300")
    assert first == again
    assert isinstance(first[0], Raw)
    assert len(first[0].data) == 300
    assert first[1] == Close()


@pytest.mark.parametrize(
    ("stream", "path"), [(s, p) for s in (True, False) for p in ("/v1/chat/completions", MESSAGES)]
)
async def test_hidden_usage_is_nowhere_in_the_answer_but_on_the_bill(stream: bool, path: str) -> None:
    bench, actions = await struck("hidden_usage", stream=stream, path=path)
    assert b"usage" not in body_of(actions)
    assert last_line(bench).tokens.output == TOKENS


async def test_a_fault_can_be_chosen_by_the_models_name() -> None:
    bench = Bench()
    actions = await bench.ask({**chat(stream=True), "model": "m!cut;after_tokens=2"}, x_sim_output_tokens="9")
    assert texts(actions) == 2
    assert b'"model":"m!cut;after_tokens=2"' in body_of(actions)
    assert last_line(bench).model == "m"


async def test_the_header_wins_over_name_and_schedule() -> None:
    bench = Bench(faults=[{"kind": "500"}])
    assert status_of(await bench.ask({**chat(), "model": "m!502"}, x_sim_fault="503")) == 503
    assert status_of(await bench.ask({**chat(), "model": "m!502"})) == 502
    assert status_of(await bench.ask(chat())) == 500


@pytest.mark.parametrize("fault", ["nonsense", "cut;after=3", "cut;after_tokens=soon", "rst;byte=-1", "200"])
async def test_a_mistyped_fault_is_refused_and_named(fault: str) -> None:
    _, actions = await struck(fault)
    assert status_of(actions) == 400
    assert orjson.loads(body_of(actions))["error"]["code"] == "sim_fault_unknown"


def test_parameters_are_percent_decoded_and_have_defaults() -> None:
    fault = parse(" cut ; after_tokens = 12 ")
    assert (fault.kind, fault.number("after_tokens")) == ("cut", 12)
    assert parse("cut").number("after_tokens") == 4
    with pytest.raises(FaultUnknown, match="no parameter"):
        check("cut", {"x": "1"})


async def test_every_nth_matching_request_is_struck() -> None:
    bench = Bench(
        models=[
            {"name": "m", "input_uncached": 1, "output": 1},
            {"name": "n", "input_uncached": 1, "output": 1},
        ],
        faults=[{"kind": "503", "every_n": 3, "model": "m"}],
    )
    statuses = []
    for _ in range(6):
        statuses.append(status_of(await bench.ask(chat())))
        assert status_of(await bench.ask({**chat(), "model": "n"})) == 200
    assert statuses == [200, 200, 503, 200, 200, 503]


async def test_a_probability_strikes_about_so_often() -> None:
    bench = Bench(faults=[{"kind": "500", "probability": 0.25}])
    struck_count = sum([status_of(await bench.ask(chat())) == 500 for _ in range(400)])
    assert 70 < struck_count < 130


async def test_a_scheduled_fault_keeps_to_its_time_span() -> None:
    bench = Bench(faults=[{"kind": "500", "from_s": 10, "until_s": 20}])
    statuses = []
    for _ in range(3):
        statuses.append(status_of(await bench.ask(chat())))
        await bench.clock.advance(10)
    assert statuses == [200, 500, 200]


def test_the_reference_page_lists_every_fault_with_its_parameters_and_every_mode() -> None:
    from tidegate.simulator.faults import LISTENER_MODES

    page = (Path(__file__).parents[3] / "docs/reference/simulator.md").read_text(encoding="utf-8")
    for kind, entry in CATALOGUE.items():
        if kind.isdigit():
            assert kind in page
            continue
        row = next((line for line in page.splitlines() if line.startswith(f"| `{kind}`")), "")
        assert entry.bill in row, kind
        for name, default in entry.params.items():
            assert f"`{name}`" in row, (kind, name)
            assert not default or default in row, (kind, name)
    assert all(f"`{mode}`" in page for mode in LISTENER_MODES)
