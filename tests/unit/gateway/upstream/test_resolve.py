"""The name cache: TTL, one lookup at a time, cancellation, failures."""

import asyncio
import threading

import pytest

from support.loops import on_both_loops
from tidegate.gateway.outbound.resolve import ResolveCache, system_lookup


class Answers:
    """A blocking lookup that counts its calls and can be held up."""

    def __init__(self, *answers: list[str] | OSError) -> None:
        self._answers = list(answers)
        self.calls = 0
        self.started = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    def __call__(self, host: str, port: int) -> list[str]:
        self.calls += 1
        self.started.set()
        assert self.may_answer.wait(20)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer


@on_both_loops
async def test_an_answer_lives_for_its_ttl() -> None:
    answers = Answers(["1.1.1.1"], ["2.2.2.2"])
    cache = ResolveCache(answers, ttl_s=0.05)
    assert await cache.addresses("h", 1) == ("1.1.1.1",)
    known_until = asyncio.get_running_loop().time() + 0.05
    seen = await cache.addresses("h", 1)
    if asyncio.get_running_loop().time() < known_until - 0.01:
        assert seen == ("1.1.1.1",)
    while await cache.addresses("h", 1) == ("1.1.1.1",):
        await asyncio.sleep(0.01)
    assert answers.calls == 2
    cache.close()


@on_both_loops
async def test_one_lookup_serves_all_who_ask_and_a_cancelled_one_takes_nothing_along() -> None:
    answers = Answers(["1.1.1.1"])
    answers.may_answer.clear()
    cache = ResolveCache(answers)
    async with asyncio.TaskGroup() as group:
        callers = [group.create_task(cache.addresses("h", 1)) for _ in range(5)]
        await asyncio.to_thread(answers.started.wait, 20)
        callers[0].cancel()
        answers.may_answer.set()
    assert callers[0].cancelled()
    assert [caller.result() for caller in callers[1:]] == [("1.1.1.1",)] * 4
    assert answers.calls == 1
    cache.close()


@on_both_loops
async def test_a_failure_is_told_and_not_remembered() -> None:
    cache = ResolveCache(Answers(OSError("no such host"), ["1.1.1.1"]))
    with pytest.raises(OSError, match="no such host"):
        await cache.addresses("h", 1)
    assert await cache.addresses("h", 1) == ("1.1.1.1",)
    cache.close()


@on_both_loops
async def test_hosts_are_kept_apart() -> None:
    cache = ResolveCache(lambda host, port: [f"{host}:{port}"])
    assert await cache.addresses("a", 1) == ("a:1",)
    assert await cache.addresses("b", 1) == ("b:1",)
    assert await cache.addresses("a", 2) == ("a:2",)
    cache.close()


def test_the_system_lookup_gives_numeric_addresses_without_repeats() -> None:
    found = system_lookup("localhost", 80)
    assert set(found) <= {"127.0.0.1", "::1"}
    assert len(found) == len(set(found)) > 0
