"""Decisions replay bit by bit in processes whose libm and numpy calculate with other instructions."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from support.arithmetic import UNTUNED, tuned
from support.rig import KEY, PRICES, provider
from support.served import FORWARDED, Served, serving

pytestmark = pytest.mark.slow
DECISIONS = 240
CLIENTS = 6
ROUNDS = 4
LIBM = """
import math, random
numbers = random.Random(5)
for function in (math.exp, math.log, math.sin, math.cos, math.tan):
    for _ in range(5000):
        print(function.__name__, function(numbers.uniform(0.01, 30)).hex())
for _ in range(5000):
    print("pow", math.pow(numbers.uniform(0.1, 10), numbers.uniform(-5, 5)).hex())
"""
NUMPY = """
import importlib
core = importlib.import_module("numpy._core._multiarray_umath")
print(*(name for name in core.__cpu_dispatch__ if core.__cpu_features__[name]))
"""


def python(script: str, env: Mapping[str, str]) -> str:
    full = {**os.environ, **env}
    done = subprocess.run(
        [sys.executable, "-c", script], env=full, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_other_arithmetic_is_another_one() -> None:
    assert python(NUMPY, tuned()).split() == []
    core: Any = importlib.import_module("numpy._core._multiarray_umath")
    if not core.__cpu_features__.get("FMA3"):
        pytest.skip("this processor has no FMA: libm has one way only")
    lines = zip(python(LIBM, UNTUNED).splitlines(), python(LIBM, tuned()).splitlines(), strict=True)
    assert any(one != other for one, other in lines)


def tables(ports: Mapping[str, int]) -> dict[str, Any]:
    """Two metered providers and a plan that runs out, chosen by price: every part of a price is in use."""
    price = {name: f"{nano / 1e9:g}" for name, nano in PRICES.items()}
    window = {"unit": "requests", "limit": 60, "duration_s": 600.0}
    return {
        "pools": [{"id": "plan", "billing": "flat", "windows": [{"id": "10m", **window}]}],
        "targets": [
            {
                "id": name,
                "dialect": "openai",
                "base_url": f"http://127.0.0.1:{port}",
                "model": "m",
                "secret": "env:SIM_KEY",
                "allow_private": True,
                "forward_headers": FORWARDED,
                "prices": [price],
                **({"pool": "plan"} if name == "flat" else {}),
            }
            for name, port in ports.items()
        ],
        "routes": [
            {"name": "chat", "strategy": "cheapest", "candidates": [{"target": name} for name in ports]}
        ],
    }


PROVIDERS = [
    provider("one", faults=[{"kind": "503", "every_n": 9}], latency={"ttft_ms": 40, "tokens_per_s": 2000}),
    provider("two", latency={"ttft_ms": 15, "tokens_per_s": 4000}),
    provider("flat", billing="flat", fee_nanousd=10**9),
]


async def drive(served: Served) -> None:
    """Sessions whose prompts grow, in rounds: later decisions read what the estimator made of earlier ones."""
    async with httpx.AsyncClient(base_url=served.url, timeout=60, trust_env=False) as client:

        async def session(number: int) -> None:
            for turn in range(DECISIONS // (CLIENTS * ROUNDS)):
                text = f"Session {number}. " + "What of the tides? " * (10 + 7 * turn + number)
                await client.post(
                    "/v1/chat/completions",
                    json={"model": "chat", "messages": [{"role": "user", "content": text}]},
                    headers={"authorization": f"Bearer {KEY}", "x-tidegate-session": f"s{number}"},
                )

        for nth in range(ROUNDS):
            await asyncio.gather(*(session(nth * CLIENTS + number) for number in range(CLIENTS)))
            await served.settled()


async def test_every_decision_is_identical_whatever_the_instructions_and_the_hash_seed() -> None:
    async with serving(PROVIDERS, tables=tables) as served:
        await drive(served)
        await served.settled()
        query = "SELECT count(*) FROM v_candidates WHERE target_version IS NOT NULL AND price_nanousd > 0"
        versions = (await served.run("sql", query, "--json")).json()
        assert versions["rows"][0][0] > DECISIONS // 4, "decisions read no snapshots"
        found = {}
        for name, env in {"as it is": {}, "hash seed": UNTUNED, "other instructions": tuned()}.items():
            found[name] = (await served.run("replay", "verify", "--json", env=env)).json()
    for name, report in found.items():
        assert report["identical"] == report["decisions"] >= DECISIONS, (name, report)
