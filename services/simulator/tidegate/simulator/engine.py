"""One provider without sockets: a request goes in, timed actions come out, and its bill is settled once."""

from collections.abc import AsyncGenerator

from tidegate.simulator.actions import Action, SimRequest
from tidegate.simulator.anthropic_wire import AnthropicWire
from tidegate.simulator.clock import Clock
from tidegate.simulator.config import Mode, Provider
from tidegate.simulator.desk import Desk
from tidegate.simulator.embeddings_wire import EmbeddingsWire
from tidegate.simulator.openai_wire import OpenAiWire
from tidegate.simulator.plan import Step
from tidegate.simulator.reception import Reception, new_line
from tidegate.simulator.request_log import LogFile, RequestLog
from tidegate.simulator.responses_wire import ResponsesWire
from tidegate.simulator.seeded import integer
from tidegate.simulator.stored import AnswerStore
from tidegate.simulator.tariffs import Charge
from tidegate.simulator.visit import Visit
from tidegate.simulator.wire import Wire

_BILLED = frozenset({"completed", "cut", "lost"})


class Engine:
    """A simulated provider. `mode` is how its port behaves; only a transport can act on it.

    `seed` is the simulator's; the provider's own seed, where configured, replaces it.
    """

    def __init__(
        self,
        provider: Provider,
        clock: Clock,
        *,
        seed: int = 0,
        speed: float = 1.0,
        file: LogFile | None = None,
    ) -> None:
        self.provider = provider
        self.mode: Mode = provider.mode
        self.log = RequestLog(file, provider.keep_requests)
        own_seed = integer(seed, provider.id) if provider.seed is None else provider.seed
        self.reception = Reception(provider, own_seed, speed, clock.now_s())
        self._clock = clock
        self._desk = Desk(provider, self.reception, self.log, clock)
        dimensions = {model.name: model.embedding_dimensions for model in provider.models}
        dialects: list[tuple[str, Wire]] = [
            ("/v1/chat/completions", OpenAiWire(provider.reasoning_field)),
            ("/v1/embeddings", EmbeddingsWire(own_seed, dimensions)),
            ("/v1/messages", AnthropicWire()),
            ("/v1/responses", ResponsesWire(AnswerStore())),
        ]
        self._wires = {path: wire for path, wire in dialects if wire.dialect in provider.dialects}

    async def handle(self, request: SimRequest) -> AsyncGenerator[Action, None]:
        """The actions that answer a request, each yielded when it is due.

        Close the iterator (or cancel its task) when the client leaves: the bill then ends there. The bill is
        settled, and its line on disk, before the action that ends the answer is yielded.
        """
        wire = self._wires.get(request.path) if request.method == "POST" else None
        if wire is None:
            for action in self._desk.answer(request):
                yield action
            return
        now_s = self._clock.now_s()
        line = new_line(self.provider.id, wire, request, len(self.log.lines) + 1, now_s)
        self.log.open(line, request)
        visit = self.reception.receive(wire, request, line)
        try:
            for step in visit.steps:
                due_s = visit.wait_for(step)
                if step.wait_s > 0:
                    await self._clock.sleep(due_s - self._clock.now_s())
                self._reach(visit, step)
                if step.action is not None:
                    yield step.action
        finally:
            self._leave(visit)

    def _reach(self, visit: Visit, step: Step) -> None:
        visit.reach(step)
        if visit.produced and visit.lookup is not None and self.reception.cache is not None:
            self.reception.cache.store(visit.lookup, self._clock.now_s())
            visit.lookup = None
        if step.outcome is not None and visit.line.outcome is None:
            self._settle(visit, step.outcome, visit.produced if step.outcome in _BILLED else None)

    def _leave(self, visit: Visit) -> None:
        if visit.line.outcome is None:
            produced = visit.produced_by(self._clock.now_s())
            self._settle(visit, "cancelled", produced if visit.accrues else None)
        if visit.model is not None:
            self.reception.account.leave()

    def _settle(self, visit: Visit, outcome: str, produced: int | None) -> None:
        """Close the bill: input and `produced` output tokens, or nothing when that is None."""
        line, now_s = visit.line, self._clock.now_s()
        line.outcome, line.settled_s = outcome, now_s
        if produced is not None and visit.model is not None:
            line.billed = True
            line.tokens = visit.tokens.cut_to(produced)
            charge = Charge(line.service_tier, line.arrived_s)
            line.cost_nanousd = self.reception.account.charge(line.tokens, visit.model, now_s, charge)
        self.log.settle(line)
