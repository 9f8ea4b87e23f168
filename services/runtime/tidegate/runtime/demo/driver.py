"""Drives a workload through the gateway with the official OpenAI SDK, at the trace's own pace."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec
import openai

from tidegate.runtime.demo.config import ROUTE
from tidegate.runtime.demo.prompts import Prompt, PromptWriter
from tidegate.runtime.demo.providers import MAX_CONCURRENCY
from tidegate.runtime.demo.workload import TimedRequest, Workload

Outcome = Literal["succeeded", "refused", "failed"]
REQUEST_TIMEOUT_S = 120.0
REFUSAL_CODE = "nothing_admitted"


class Tally(msgspec.Struct):
    """What the clients saw. `reasons` counts the codes of what did not succeed."""

    succeeded: int = 0
    refused: int = 0
    failed: int = 0
    took_s: float = 0.0
    reasons: dict[str, int] = {}

    @property
    def requests(self) -> int:
        """Requests sent."""
        return self.succeeded + self.refused + self.failed

    def add(self, outcome: Outcome, reason: str | None) -> None:
        """Count one request."""
        setattr(self, outcome, getattr(self, outcome) + 1)
        if reason is not None:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1


class Driver:
    """Clients of all tenants against one gateway. `keys` are API keys by tenant; `speed` divides gaps."""

    def __init__(
        self, base_url: str, keys: Mapping[str, str], speed: float, on_done: Callable[[Tally], object]
    ) -> None:
        self._base_url = base_url
        self._keys = keys
        self._speed = speed
        self._on_done = on_done
        self._gate = asyncio.Semaphore(MAX_CONCURRENCY)
        self._clients: dict[str, openai.AsyncOpenAI] = {}
        self.tally = Tally()

    async def run(self, workload: Workload) -> Tally:
        """Send everything; a strand's next request waits for its time and for the answer before it."""
        loop = asyncio.get_running_loop()
        # The gateway is on this machine: no proxy of the environment stands between.
        async with openai.DefaultAsyncHttpxClient(timeout=REQUEST_TIMEOUT_S, trust_env=False) as transport:
            self._clients = {
                tenant: openai.AsyncOpenAI(
                    base_url=self._base_url, api_key=key, max_retries=0, http_client=transport
                )
                for tenant, key in self._keys.items()
            }
            began_s = loop.time()
            async with asyncio.TaskGroup() as tasks:
                for strand in workload.strands():
                    tasks.create_task(self._strand(strand, began_s))
            self.tally.took_s = loop.time() - began_s
        return self.tally

    async def _strand(self, requests: list[TimedRequest], began_s: float) -> None:
        loop = asyncio.get_running_loop()
        writer = PromptWriter()
        for request in requests:
            await asyncio.sleep(max(0.0, began_s + request.at_s / self._speed - loop.time()))
            async with self._gate:
                outcome, reason = await self._ask(request, writer.write(request))
            self.tally.add(outcome, reason)
            self._on_done(self.tally)

    async def _ask(self, request: TimedRequest, prompt: Prompt) -> tuple[Outcome, str | None]:
        try:
            await self._send(request, prompt)
        except openai.APIStatusError as error:
            code = error.code or str(error.status_code)
            return ("refused" if code == REFUSAL_CODE else "failed"), code
        except openai.APIError as error:
            return "failed", error.code or type(error).__name__
        return "succeeded", None

    async def _send(self, request: TimedRequest, prompt: Prompt) -> None:
        client = self._clients[request.tenant]
        answer = await client.chat.completions.create(
            model=ROUTE,
            messages=prompt.messages(),  # type: ignore[arg-type]
            tools=prompt.tools or openai.omit,  # type: ignore[arg-type]
            stream=request.stream,
            extra_headers={
                "x-tidegate-session": request.session,
                "x-sim-output-tokens": str(request.output_tokens),
            },
        )
        if isinstance(answer, openai.AsyncStream):
            async for _ in answer:
                pass
