"""The official npm SDKs as judges: through the gateway, whatever the upstream speaks, their stream is their answer."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from support.agents_gateway import UPSTREAMS, check_ledger
from support.agents_install import ANTHROPIC, OPENAI, NotInstallable, Package
from support.agents_isolation import why_impossible
from support.agents_runs import INVOICE
from support.agents_sdks import Conversation, check_turn, conversation, embedding, hold, lasting

pytestmark = [pytest.mark.nightly, pytest.mark.slow]
EACH = 300
"""Conversations for each dialect of client and upstream; embeddings, too."""
ROUTES = {f"to-{dialect}": dialect for dialect in UPSTREAMS} | {"vectors": "openai-embeddings"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Sockets have short names: a folder of pytest's would not fit."""
    with tempfile.TemporaryDirectory(prefix="tg", ignore_cleanup_errors=True) as name:
        yield Path(name)


def corpus(*kinds: str) -> list[Conversation]:
    return [
        conversation(kind, f"to-{upstream}", number)
        for kind, upstream, number in product(kinds, UPSTREAMS, range(EACH))
    ]


@pytest.mark.parametrize(
    ("package", "program", "conversations"),
    [
        (
            OPENAI,
            "openai.mjs",
            [*corpus("chat", "responses"), *(embedding("vectors", n) for n in range(EACH))],
        ),
        (ANTHROPIC, "anthropic.mjs", corpus("messages")),
    ],
    ids=("openai", "anthropic"),
)
def test_what_an_npm_sdk_makes_of_a_stream_is_the_answer_and_the_ledger_equals_the_invoice(
    package: Package, program: str, conversations: list[Conversation], folder: Path
) -> None:
    reason = why_impossible()
    if reason is not None:
        pytest.skip(reason)
    try:
        heard, outcome = hold(package, program, conversations, ROUTES, folder)
    except NotInstallable as error:
        pytest.skip(str(error))
    assert {script: told["error"] for script, told in heard.items() if "error" in told} == {}
    for one in conversations:
        turns = heard[one.script]["turns"]
        assert len(turns) == len(one.said)
        for said, turn in zip(one.said, turns, strict=True):
            if one.kind == "embeddings":
                assert lasting(turn["streamed"]) == lasting(turn["whole"])
                assert turn["whole"]["data"]
            else:
                check_turn(one, said, turn)
    invoice = outcome.pages[INVOICE]
    assert invoice["totals"]["requests"] == 2 * sum(len(one.said) for one in conversations)
    check_ledger(folder, invoice)
