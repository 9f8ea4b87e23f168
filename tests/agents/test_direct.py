"""Real coding agents do a task of several turns against the simulator itself, cut off from every network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.agents_checks import check_task, events
from support.agents_commands import AGENTS, THOUGHT
from support.agents_install import NotInstallable
from support.agents_isolation import why_impossible
from support.agents_runs import Run, run

pytestmark = [pytest.mark.nightly, pytest.mark.slow]


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_does_its_task_and_what_it_was_told_it_used_is_what_is_billed(
    name: str, tmp_path: Path
) -> None:
    reason = why_impossible()
    if reason is not None:
        pytest.skip(reason)
    try:
        ran = run(AGENTS[name], tmp_path)
    except NotInstallable as error:
        pytest.skip(str(error))
    check_task(name, ran, tmp_path)
    check_conversation(name, ran)
    check_bill(name, ran)


def check_conversation(name: str, ran: Run) -> None:
    """One request a turn, in its dialect; thoughts came back unchanged, and prompts were read from the cache."""
    ends = [(record["status"], record["outcome"]) for record in ran.records]
    assert ends == [(200, "completed")] * len(AGENTS[name].script)
    assert {request["path"] for request in ran.requests} == {AGENTS[name].path}
    second = ran.requests[1]["body"]
    if AGENTS[name].path == "/v1/messages":
        assert '"signature":"' in second
        # One of them asks for thoughts that are signed but not shown.
        shown = THOUGHT in json.dumps(json.loads(second), ensure_ascii=False)
        assert shown == (name != "claude-code")
    elif AGENTS[name].path == "/v1/responses":
        assert '"encrypted_content":"' in second
    reads = [record["tokens"]["cache_read"] for record in ran.records]
    assert reads[0] == 0
    assert all(read > 0 for read in reads[1:])


def check_bill(name: str, ran: Run) -> None:
    """Every request is on the invoice; agents that report their usage report the same."""
    totals = ran.invoice["totals"]
    assert totals["requests"] == len(ran.records)
    inputs = sum(
        totals[kind] for kind in ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h")
    )
    if name == "claude-code":
        usage = json.loads(ran.outcome.out)["usage"]
        kinds = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        assert (sum(usage[kind] for kind in kinds), usage["output_tokens"]) == (inputs, totals["output"])
        assert usage["cache_read_input_tokens"] == totals["cache_read"]
    elif name == "codex":
        usage = events(ran.outcome.out)[-1]["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (inputs, totals["output"])
        assert usage["cached_input_tokens"] == totals["cache_read"]
        assert usage["reasoning_output_tokens"] == totals["reasoning"]
