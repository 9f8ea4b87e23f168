"""Recorded traffic: what is read, what is changed and counted, and what is wrong with a file, by line."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tidegate.runtime.demo.traces import STAGGER_S, TraceInvalid, read_trace
from tidegate.runtime.demo.workload import Span

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:17:03.9799600,4808,10\n"
    "2023-11-16 18:17:04.0319600,3180,8\n"
    "2023-11-16 18:18:03.9799600,110,27"
)


def entry(t: float, size: int = 640, out: int = 9, **changes: Any) -> dict[str, Any]:
    return {"t": t, "type": "s", "in": size, "out": out, "hash_runs": [[1, size // 64]], **changes}


def session(name: str, *requests: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "id": name, "block_size": 64, "tool_tokens": 128, "system_tokens": 64, "requests": list(requests), **changes
    }  # fmt: skip


def written(folder: Path, *sessions: dict[str, Any], packed: bool = False) -> Path:
    text = "\n".join(json.dumps(each) for each in sessions)
    path = folder / ("trace.jsonl.gz" if packed else "trace.jsonl")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_a_session_trace_is_read_packed_or_not_whatever_its_name(tmp_path: Path, packed: bool) -> None:
    path = written(tmp_path, session("one", entry(0.0), entry(5.0, 704, type="n")), packed=packed)
    path = path.rename(tmp_path / "traffic")
    workload = read_trace(path)
    first, second = workload.requests
    assert (workload.origin, workload.sessions, workload.clipped, workload.skipped) == ("traffic", 1, 0, 0)
    assert (first.session, first.at_s, first.input_tokens, first.output_tokens) == ("one", 0.0, 640, 9)
    assert (first.stream, second.stream) == (True, False)
    assert (first.tool_tokens, first.system_tokens, first.block_tokens) == (128, 64, 64)
    assert second.spans == (Span("one", 1, 11),)


def test_runs_of_block_ids_are_kept_in_order(tmp_path: Path) -> None:
    path = written(tmp_path, session("one", entry(0.0, hash_runs=[[1, 3], [70, 2], [9, 1]])))
    assert read_trace(path).requests[0].spans == (Span("one", 1, 3), Span("one", 70, 2), Span("one", 9, 1))


def test_requests_of_sub_agents_are_strands_at_times_counted_from_their_parent(tmp_path: Path) -> None:
    inner = {
        "t": 2.0,
        "type": "subagent",
        "requests": [entry(1.0, 320)],
        "tool_tokens": 0,
        "system_tokens": 0,
    }
    agent = {
        "t": 100.0, "type": "subagent", "tool_tokens": 64, "system_tokens": 0,
        "requests": [entry(0.0, 192), inner, entry(30.0, 256)],
    }  # fmt: skip
    workload = read_trace(written(tmp_path, session("one", entry(0.0), agent, entry(90.0))))
    placed = {(r.input_tokens, r.strand): (r.at_s, r.tool_tokens) for r in workload.requests}
    assert placed == {
        (640, 0): (90.0, 128), (192, 1): (100.0, 64), (320, 2): (103.0, 0), (256, 1): (130.0, 64)
    }  # fmt: skip
    assert [len(strand) for strand in workload.strands()] == [2, 2, 1]


def test_only_the_first_sessions_are_taken_and_each_starts_later_than_the_one_before(tmp_path: Path) -> None:
    path = written(tmp_path, *(session(f"s{n}", entry(0.0), entry(3.0)) for n in range(5)))
    workload = read_trace(path, sessions=3)
    assert workload.sessions == 3
    starts = [strand[0].at_s for strand in workload.strands()]
    assert starts == [0.0, STAGGER_S, 2 * STAGGER_S]
    assert {request.session for request in workload.requests} == {"s0", "s1", "s2"}


def test_long_pauses_of_a_whole_session_are_cut_and_counted_sub_agents_move_along(tmp_path: Path) -> None:
    agent = {"t": 5_000.0, "type": "subagent", "requests": [entry(10.0, 192), entry(20.0, 192)]}
    path = written(tmp_path, session("one", entry(0.0), agent, entry(5_005.0), entry(90_000.0)))
    workload = read_trace(path, max_gap_s=100.0)
    assert [request.at_s for request in workload.requests] == [0.0, 100.0, 105.0, 115.0, 215.0]
    assert workload.shortened == 2
    assert read_trace(path, max_gap_s=1e9).shortened == 0


def test_requests_without_an_answer_are_counted_and_not_driven(tmp_path: Path) -> None:
    path = written(tmp_path, session("one", entry(0.0), entry(4.0, out=0), entry(9.0)))
    workload = read_trace(path)
    assert [request.at_s for request in workload.requests] == [0.0, 9.0]
    assert workload.skipped == 1


def test_rows_of_the_azure_trace_are_sessions_of_their_own_at_seconds_from_the_first(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(AZURE)
    workload = read_trace(path)
    assert workload.sessions == 3
    assert [request.at_s for request in workload.requests] == [0.0, pytest.approx(0.052), 60.0]
    assert [request.input_tokens for request in workload.requests] == [4_808, 3_180, 110]
    assert [request.output_tokens for request in workload.requests] == [10, 8, 27]
    assert len({request.session for request in workload.requests}) == 3
    assert len(read_trace(path, sessions=2).requests) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("a,b,c\n1,2,3\n", ":1: neither a JSON object per line"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no row"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,2\n", ":2: "),
        (f"{AZURE}\n2023-11-16 18:19:00.0000000,x,1\n", ":5: "),
        (f"{AZURE}\n2023-11-16 18:19:00.0000000,7\n", ":5: 2 fields, 3 expected"),
        (f"{AZURE}\n2023-11-16 18:19:00.0000000,0,5\n", ":5: 0 input and 5 output tokens are no request"),
        ('{"id": "one"}\n', ":1: Object missing required field `requests`"),
        ('{"id": "one", "requests": []}\n', "no session with an answered request"),
        (json.dumps(session("one", entry(0.0))) + "\n{broken\n", ":2: JSON is malformed"),
        (json.dumps(session("one", entry(0.0))) + "\n" + json.dumps(session("two", {"t": 4, "type": "n"})), ":2: session two: the request at t=4.0 lacks `in` or `out`"),
        (json.dumps(session("one", entry(-1.0))), "Expected `float` >= 0"),
        (json.dumps(session("one", entry(0.0, hash_runs=[[1, -3]]))), "Expected `int` >= 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(TraceInvalid) as caught:
        read_trace(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_not_whole_or_not_text_is_said_so(tmp_path: Path) -> None:
    whole = gzip.compress(json.dumps(session("one", entry(0.0))).encode() * 50)
    for name, content, said in (
        ("torn", whole[: len(whole) // 2], "cannot be read"),
        ("bytes", b"{\xff\xfe", "not UTF-8"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(TraceInvalid, match=said):
            read_trace(tmp_path / name)
    with pytest.raises(TraceInvalid, match="cannot be read"):
        read_trace(tmp_path / "missing")
