"""What a time-ordered id tells of the time. Pure."""

_MS = 1_000_000
"""Nanoseconds."""


def made_ns(text: str) -> int | None:
    """When an id of an IdSource was made, by its clock, to the millisecond; None for another text."""
    if len(text) != 36 or text[8] != "-" or text[13:15] != "-7":
        return None
    try:
        return int(text[:8] + text[9:13], 16) * _MS
    except ValueError:
        return None
