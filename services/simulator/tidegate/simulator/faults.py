"""The fault catalogue, and how a request gets its fault: header, model name, or the provider's schedule."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from tidegate.simulator.config import FaultRule
from tidegate.simulator.fault_kind import FaultKind
from tidegate.simulator.seeded import unit
from tidegate.simulator.shape_catalogue import CHOICES, SHAPES

FAULT_HEADER = b"x-sim-fault"
SHAPE_HEADER = b"x-sim-shape"


class FaultUnknown(ValueError):
    """No such fault, or a parameter it does not take."""


class Fault(NamedTuple):
    """A chosen fault with its parameters as given."""

    kind: str
    params: Mapping[str, str]

    def text(self, name: str) -> str:
        """A parameter, or its default from the catalogue."""
        return self.params.get(name, known(self.kind).params[name])

    def number(self, name: str) -> float:
        """A numeric parameter, or its default. Unit: as the parameter's name says."""
        return float(self.text(name))


STATUSES = (400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, 529)
_STATUS_PARAMS = {
    "code": "",
    "type": "",
    "message": "",
    "retry_after": "",
    "retry_after_ms": "",
    "body": "json",
}

CATALOGUE: dict[str, FaultKind] = {
    "header_stall": FaultKind("reads the request, sends nothing for a while", {"seconds": "3600"}, "all"),
    "first_token_stall": FaultKind(
        "sends head and opening events, then holds the first token", {"seconds": "3600", "ping_s": "0"}, "all"
    ),
    "mid_stream_stall": FaultKind(
        "falls silent after some tokens", {"seconds": "3600", "after_tokens": "4", "ping_s": "0"}, "all"
    ),
    "cut": FaultKind("ends the connection (FIN) after some tokens", {"after_tokens": "4"}, "so far"),
    "rst": FaultKind(
        "resets the connection before a body byte, or before a byte of the whole answer when `byte` is given",
        {"body_byte": "0", "byte": ""},
        "so far",
    ),
    "malformed_event": FaultKind(
        "breaks the JSON of one event, or of the body", {"after_tokens": "4"}, "all"
    ),
    "missing_terminal": FaultKind("leaves out the terminal event of a stream, framing intact", {}, "all"),
    "truncated_json": FaultKind("ends the JSON in the middle, framing intact", {}, "so far"),
    "billed_no_bytes": FaultKind("does and bills the work, then closes without a byte", {}, "all"),
    "close_no_bytes": FaultKind("closes without work, bill or byte", {}, "nothing"),
    "error_200": FaultKind(
        "answers 200 with an error body; in a stream an error event, after some tokens if asked",
        {"after_tokens": "0", "status": "529", "code": "", "type": "", "message": ""},
        "so far",
    ),
    "wrong_model": FaultKind("names another model in the answer", {"model": "sim-substitute"}, "all"),
    "slow_drip": FaultKind("sends the body in small pieces", {"bytes": "1", "interval_ms": "20"}, "all"),
    "compressed": FaultKind("compresses the answer with gzip, asked or not", {}, "all"),
    "garbage": FaultKind("sends seeded bytes instead of HTTP, then closes", {"bytes": "256"}, "nothing"),
    "garbage_body": FaultKind("answers 200 with seeded bytes as the body", {"bytes": "256"}, "nothing"),
    "hidden_usage": FaultKind("leaves the usage out of the answer, but bills it", {}, "all"),
    **{
        str(status): FaultKind(f"answers status {status} in the vendor's shape", _STATUS_PARAMS, "nothing")
        for status in STATUSES
    },
}

LISTENER_MODES = {
    "refuse": "the port is taken but not listening: connections are refused",
    "connect_stall": "the accept queue is full: connections never complete",
    "accept_stall": "connections complete, but nothing is ever read from them",
}

_TEXT_PARAMS = frozenset({"code", "type", "message", "retry_after", "body", "model"})


def known(kind: str) -> FaultKind:
    """The catalogue's entry of a fault or a shape. Raises FaultUnknown."""
    found = CATALOGUE.get(kind) or SHAPES.get(kind)
    if found is None:
        raise FaultUnknown(f"fault {kind!r} is not in the catalogue")
    return found


def check(kind: str, params: Mapping[str, str]) -> None:
    """Raise FaultUnknown unless the catalogue has `kind` with these parameters, numbers and words where due."""
    entry = known(kind)
    word, words = CHOICES.get(kind, ("", ()))
    for name, value in params.items():
        if name not in entry.params:
            raise FaultUnknown(f"fault {kind} has no parameter {name!r}")
        if name == word and value not in words:
            raise FaultUnknown(f"fault {kind}: {name} must be one of {', '.join(words)}, not {value!r}")
        if name != word and name not in _TEXT_PARAMS and not _is_count(value):
            raise FaultUnknown(f"fault {kind}: {name} must be a number >= 0, not {value!r}")


def parse(text: str) -> Fault:
    """Read `kind;name=value;…` (values percent-encoded), a fault or a shape. Raises FaultUnknown."""
    kind, *pairs = text.split(";")
    params: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        params[name.strip()] = unquote(value.strip())
    fault = Fault(kind.strip(), params)
    check(fault.kind, fault.params)
    return fault


class Schedule:
    """The provider's own faults: rules tried in order, each counting the requests it matches."""

    def __init__(self, rules: tuple[FaultRule, ...], seed: int, started_s: float, speed: float) -> None:
        self._rules = rules
        self._counts = [0] * len(rules)
        self._seed = seed
        self._started_s = started_s
        self._speed = speed

    def pick(self, model: str, ordinal: int, now_s: float) -> Fault | None:
        """The fault for this request, or None."""
        age_s = (now_s - self._started_s) * self._speed
        picked: Fault | None = None
        for place, rule in enumerate(self._rules):
            if rule.model not in (None, model) or age_s < rule.from_s:
                continue
            if rule.until_s is not None and age_s >= rule.until_s:
                continue
            self._counts[place] += 1
            if picked is None and self._strikes(rule, place, ordinal):
                picked = Fault(rule.kind, rule.params)
        return picked

    def _strikes(self, rule: FaultRule, place: int, ordinal: int) -> bool:
        if rule.every_n is not None:
            return self._counts[place] % rule.every_n == 0
        if rule.probability is not None:
            return unit(self._seed, f"fault/{place}/{ordinal}") < rule.probability
        return True


def _is_count(value: str) -> bool:
    try:
        return 0 <= float(value) < float("inf")
    except ValueError:
        return False
