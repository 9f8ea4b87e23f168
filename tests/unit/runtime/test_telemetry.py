"""What a role writes on standard error: JSON lines, and nothing in them that was not meant to be there."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tidegate.runtime.telemetry import ALLOWED, only_allowed

SECRET = "sk-this-must-not-be-logged"
BODY = "Why is the sky blue?"


def lines(script: str, code: int = 0) -> list[dict[str, Any]]:
    """The log of a process that is set up as a role is and then runs `script`."""
    full = (
        "import asyncio, gc, logging, sys, threading, warnings\n"
        "from tidegate.events.errors import LogUnavailable\n"
        "from tidegate.runtime.telemetry import configure, logger\n"
        f"SECRET, BODY = {SECRET!r}, {BODY!r}\n"
        "configure('gateway', 'gw-0')\n" + script
    )
    ran = subprocess.run([sys.executable, "-c", full], capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stderr
    assert ran.stdout == ""
    assert SECRET not in ran.stderr
    assert BODY not in ran.stderr
    found = [json.loads(line) for line in ran.stderr.splitlines()]
    for line in found:
        assert line.keys() <= ALLOWED
        assert (line["role"], line["slot"]) == ("gateway", "gw-0")
        assert line.keys() >= {"event", "level", "timestamp"}
    return found


def test_fields_that_are_not_on_the_list_are_dropped() -> None:
    fields = {"event": "e", "authorization": SECRET, "body": BODY, "port": 1}
    assert only_allowed(None, "info", fields) == {"event": "e", "port": 1}


@pytest.mark.parametrize(
    "name", ["authorization", "key", "secret", "token", "headers", "body", "prompt", "url", "params"]
)
def test_no_field_that_could_hold_a_secret_or_a_prompt_is_on_the_list(name: str) -> None:
    assert name not in ALLOWED


def test_our_own_lines_hold_what_they_were_given_of_the_list() -> None:
    (line,) = lines("logger().info('serves', port=5, key=SECRET)")
    assert (line["event"], line["port"], line["level"]) == ("serves", 5, "info")


def test_a_librarys_record_is_its_template_without_what_was_put_into_it() -> None:
    (line,) = lines("logging.getLogger('httpx').warning('request %s with %s\\n%s', BODY, SECRET, SECRET)")
    assert (line["event"], line["source"], line["level"]) == ("request %s with %s", "httpx", "warning")


def test_a_record_of_one_of_our_rooms_is_told_as_it_was_put_together() -> None:
    (line,) = lines("logging.getLogger('tidegate.gateway.server').error('%s: %s', 'request r1', 'KeyError')")
    assert (line["event"], line["source"]) == ("request r1: KeyError", "tidegate.gateway.server")


def test_a_librarys_error_is_named_with_its_place_but_not_with_its_text() -> None:
    script = (
        "def fails():\n"
        "    raise ValueError(SECRET)\n"
        "try:\n"
        "    fails()\n"
        "except ValueError:\n"
        "    logging.getLogger('uvicorn.error').exception('failed for %s', SECRET)\n"
    )
    (line,) = lines(script)
    assert (line["event"], line["error"], "why" in line) == ("failed for %s", "ValueError", False)
    assert line["frames"][-1].endswith(" fails")


def test_debug_and_info_of_libraries_are_not_written() -> None:
    assert lines("logging.getLogger('x').info('hello'); logging.getLogger('x').debug('hello')") == []


def test_an_error_nobody_caught_is_one_line() -> None:
    (line,) = lines("raise RuntimeError(SECRET)", code=1)
    assert (line["event"], line["level"], line["error"]) == ("uncaught error", "critical", "RuntimeError")
    assert line["frames"]


def test_an_error_of_ours_that_nobody_caught_says_why_also_from_within_a_group() -> None:
    script = (
        "async def fails():\n"
        "    raise LogUnavailable('Kafka is away')\n"
        "async def main():\n"
        "    async with asyncio.TaskGroup() as tasks:\n"
        "        tasks.create_task(fails())\n"
        "asyncio.run(main())\n"
    )
    (line,) = lines(script, code=1)
    assert (line["error"], line["why"], line["code"]) == (
        "LogUnavailable",
        "Kafka is away",
        "log_unavailable",
    )


def test_errors_of_threads_of_destructors_and_of_forgotten_tasks_are_lines_too() -> None:
    script = (
        "def fails():\n"
        "    raise RuntimeError(SECRET)\n"
        "thread = threading.Thread(target=fails, name='worker')\n"
        "thread.start()\n"
        "thread.join()\n"
        "class Bad:\n"
        "    def __del__(self):\n"
        "        raise RuntimeError(SECRET)\n"
        "Bad()\n"
        "async def forgotten():\n"
        "    raise RuntimeError(SECRET)\n"
        "async def main():\n"
        "    asyncio.ensure_future(forgotten())\n"
        "    await asyncio.sleep(0)\n"
        "    await asyncio.sleep(0)\n"
        "    gc.collect()\n"
        "asyncio.run(main())\n"
    )
    events = [line["event"] for line in lines(script)]
    assert events == [
        "uncaught error in a thread",
        "error that could not be raised",
        "Task exception was never retrieved",
    ]


def test_a_warning_is_a_line_without_its_text() -> None:
    (line,) = lines("warnings.simplefilter('always'); warnings.warn(SECRET, UserWarning)")
    assert (line["event"], line["error"]) == ("warning", "UserWarning")


def test_an_interrupt_at_the_terminal_is_no_error() -> None:
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "from tidegate.runtime.telemetry import configure; configure('log'); raise KeyboardInterrupt",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr == ""
