"""Reads and writes `POST /v1/embeddings`: seeded unit vectors, as numbers or as base64."""

import base64
import math
import struct
from collections.abc import Iterator
from typing import Any

import orjson

from tidegate.simulator.answer import Answer
from tidegate.simulator.ask import Ask, Embed, positive, read_json, split_model
from tidegate.simulator.openai_wire import OpenAiWire
from tidegate.simulator.refusal import invalid
from tidegate.simulator.seeded import noise
from tidegate.simulator.tokens import count
from tidegate.simulator.wire import Event

MAX_INPUTS = 2048


class EmbeddingsWire(OpenAiWire):
    """Inputs are texts or token numbers; equal ones get equal vectors of one provider."""

    endpoint: str = "embeddings"

    def __init__(self, seed: int, dimensions: dict[str, int]) -> None:
        super().__init__()
        self._seed = seed
        self._dimensions = dimensions

    def read(self, body: bytes) -> Ask:
        """Body to Ask. Raises Refusal 400."""
        fields = read_json(body)
        model, name, fault = split_model(fields)
        form = fields.get("encoding_format") or "float"
        if form not in ("float", "base64"):
            raise invalid("'encoding_format' must be 'float' or 'base64'", "encoding_format")
        size = positive(fields, "dimensions")
        if size is not None and size > self._dimensions.get(name, size):
            raise invalid(f"'dimensions' must be at most {self._dimensions[name]}", "dimensions")
        embeds = tuple(_embeds(fields.get("input")))
        return Ask(
            model=model,
            name=name,
            fault=fault,
            stream=False,
            show_usage=True,
            output_cap=None,
            prompt=b"".join(embed.data for embed in embeds),
            marks=(),
            tools=(),
            embeds=embeds,
            echo={"form": form, "size": size or self._dimensions.get(name, 1), "embeds": embeds},
        )

    def whole(self, answer: Answer) -> bytes:
        """A `list` of embeddings with their usage."""
        data = [
            {"object": "embedding", "index": place, "embedding": self._vector(answer, embed)}
            for place, embed in enumerate(answer.echo["embeds"])
        ]
        body: dict[str, Any] = {"object": "list", "data": data, "model": answer.model}
        if answer.show_usage:
            body["usage"] = {"prompt_tokens": answer.tokens.prompt, "total_tokens": answer.tokens.prompt}
        return orjson.dumps(body)

    def events(self, answer: Answer, size_tokens: int) -> Iterator[Event]:
        """Embeddings are never streamed."""
        yield from ()

    def _vector(self, answer: Answer, embed: Embed) -> list[float] | str:
        size = answer.echo["size"]
        raw = struct.unpack(f"<{size}i", noise(self._seed, f"vector/{embed.data.hex()}", 4 * size))
        length = math.sqrt(sum(value * value for value in raw)) or 1.0
        packed = struct.pack(f"<{size}f", *(value / length for value in raw))
        if answer.echo["form"] == "base64":
            return base64.b64encode(packed).decode()
        return list(struct.unpack(f"<{size}f", packed))


def _embeds(given: Any) -> Iterator[Embed]:
    """One input or many: strings count a quarter of their bytes, lists of token numbers their length."""
    many = given if isinstance(given, list) and not _is_tokens(given) else [given]
    if not many or len(many) > MAX_INPUTS:
        raise invalid(f"'input' must hold 1 to {MAX_INPUTS} inputs", "input")
    for entry in many:
        if isinstance(entry, str) and entry:
            data = entry.encode("utf-8", "surrogatepass")
            yield Embed(data, count(len(data)))
        elif _is_tokens(entry):
            yield Embed(orjson.dumps(entry), len(entry))
        else:
            raise invalid("'input' must be a string, a list of token numbers, or a list of these", "input")


def _is_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(entry) is int for entry in value)
