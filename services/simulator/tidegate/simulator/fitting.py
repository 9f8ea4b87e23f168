"""Values that fit a simple JSON Schema, chosen by seed."""

from collections.abc import Mapping
from typing import Any

from tidegate.simulator.seeded import integer, unit

_WORDS = ("tide", "né", "月の", "🌊", 'a "quoted" word', "back\\slash", "two\nlines", "sea")
_DEEPEST = 6
_SPREAD = 100


def fit(schema: Any, seed: int, label: str) -> Any:
    """A value of the schema: types, properties, items, enum, const, bounds, anyOf and `$ref` into it.

    Nothing else is heeded (patterns, formats, allOf). A schema that says nothing gets an object.
    """
    root = schema if isinstance(schema, Mapping) else {}
    return _Fitter(root, seed).value(root, label, 0)


class _Fitter:
    def __init__(self, root: Mapping[str, Any], seed: int) -> None:
        self._root = root
        self._seed = seed

    def value(self, schema: Any, label: str, depth: int) -> Any:
        """One value; below the deepest level only what is required is made."""
        rule = self._resolved(schema)
        if "const" in rule:
            return rule["const"]
        if rule.get("enum"):
            return rule["enum"][self._number(label, len(rule["enum"]))]
        for union in ("anyOf", "oneOf"):
            if rule.get(union):
                choices = rule[union]
                place = len(choices) - 1 if depth > _DEEPEST else self._number(label, len(choices))
                return self.value(choices[place], label, depth + 1)
        return self._typed(rule, label, depth)

    def _typed(self, rule: Mapping[str, Any], label: str, depth: int) -> Any:
        kind = rule.get("type", "object")
        if isinstance(kind, list):
            kind = kind[self._number(label, len(kind))]
        match kind:
            case "string":
                return self._string(rule, label)
            case "integer" | "number":
                return self._count(rule, label, kind == "number")
            case "boolean":
                return unit(self._seed, label) < 0.5
            case "null":
                return None
            case "array":
                return self._array(rule, label, depth)
            case _:
                return self._object(rule, label, depth)

    def _object(self, rule: Mapping[str, Any], label: str, depth: int) -> dict[str, Any]:
        required = rule.get("required") or ()
        properties: Mapping[str, Any] = rule.get("properties") or {}
        return {
            name: self.value(inner, f"{label}.{name}", depth + 1)
            for name, inner in properties.items()
            if name in required or depth <= _DEEPEST
        }

    def _array(self, rule: Mapping[str, Any], label: str, depth: int) -> list[Any]:
        least = int(rule.get("minItems", 0))
        most = int(rule.get("maxItems", least + 2))
        size = least if depth > _DEEPEST else least + self._number(label, most - least + 1)
        return [self.value(rule.get("items"), f"{label}[{place}]", depth + 1) for place in range(size)]

    def _string(self, rule: Mapping[str, Any], label: str) -> str:
        words = [
            _WORDS[self._number(f"{label}/{place}", len(_WORDS))]
            for place in range(1 + self._number(label, 4))
        ]
        text = " ".join(words).ljust(int(rule.get("minLength", 0)), ".")
        return text[: rule["maxLength"]] if "maxLength" in rule else text

    def _count(self, rule: Mapping[str, Any], label: str, fraction: bool) -> float:
        least = rule.get("minimum", rule.get("exclusiveMinimum", -1) + 1)
        most = rule.get("maximum", rule.get("exclusiveMaximum", least + _SPREAD + 1) - 1)
        if fraction:
            return float(least) + (float(most) - float(least)) * unit(self._seed, label)
        return int(least) + self._number(label, max(int(most) - int(least), 0) + 1)

    def _number(self, label: str, below: int) -> int:
        return integer(self._seed, label) % below

    def _resolved(self, schema: Any) -> Mapping[str, Any]:
        rule = schema if isinstance(schema, Mapping) else {"type": "string"}
        while isinstance(rule.get("$ref"), str):
            found: Any = self._root
            for step in rule["$ref"].lstrip("#/").split("/"):
                found = found.get(step, {}) if step and isinstance(found, Mapping) else found
            rule = found if isinstance(found, Mapping) else {}
        return rule
