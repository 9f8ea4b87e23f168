"""JSON as text, one way only: compact, names in their given order, so equal values give equal bytes."""

from typing import Any

import orjson


def compact(value: Any) -> str:
    """JSON text of a value that was parsed from JSON."""
    return orjson.dumps(value).decode()
