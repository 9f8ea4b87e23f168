"""The ways in which providers write the same streamed answer: legal, sloppy, or wrong only in form."""

from tidegate.simulator.fault_kind import FaultKind

USAGE_PLACES = {
    "openai": (
        "own",
        "finish",
        "last_content",
        "before_finish",
        "empty_delta",
        "twice",
        "every",
        "late",
        "null",
    ),
    "anthropic": ("own", "start", "end", "both", "larger", "null"),
    "responses": ("own", "null"),
}
"""Where the usage can stand, by dialect; `own` is the vendor's own way."""

SHAPES: dict[str, FaultKind] = {
    "usage_at": FaultKind("puts the usage elsewhere", {"where": "finish"}, "all"),
    "zero_usage": FaultKind("reports a usage of explicit zeros, and bills nothing", {}, "all"),
    "empty_choices": FaultKind(
        "chat: sends chunks without choices before and between the content", {}, "all"
    ),
    "late_content": FaultKind("chat: sends the last content after the finish reason", {}, "all"),
    "repeated_role": FaultKind("chat: names the role in every delta", {}, "all"),
    "tool_index": FaultKind(
        "chat: gives calls the index 0, leaves gaps, or leaves it out", {"kind": "gap"}, "all"
    ),
    "repeated_names": FaultKind("chat: repeats id, type and name of a call in every delta", {}, "all"),
    "one_piece": FaultKind("chat: sends every call whole in one delta", {}, "all"),
    "interleaved": FaultKind("chat: sends the arguments of parallel calls in turns", {}, "all"),
    "unknown_events": FaultKind("adds fields or events that no client knows", {}, "all"),
    "escapes": FaultKind("writes every letter beyond ASCII as an escape, or two", {}, "all"),
    "line_ends": FaultKind("ends lines with CRLF, CR, or each event differently", {"kind": "crlf"}, "all"),
    "no_space": FaultKind("leaves out the blank after the colon", {}, "all"),
    "bom": FaultKind("begins the stream with a byte order mark", {}, "all"),
    "comments": FaultKind(
        "sends a comment before every n-th event, or inside it", {"every": "1", "place": "before"}, "all"
    ),
    "data_lines": FaultKind("spreads the JSON of an event over two data lines", {}, "all"),
    "extra_fields": FaultKind("adds id, retry and unknown fields to events", {}, "all"),
    "write_cuts": FaultKind(
        "cuts writes inside letters, or before the last byte of a line", {"at": "letter"}, "all"
    ),
    "one_lump": FaultKind("holds the whole stream back and sends it in one write", {}, "all"),
    "huge_line": FaultKind(
        "sends a very long comment, or so much white space in an event",
        {"bytes": "100000", "kind": "comment"},
        "all",
    ),
    "unended": FaultKind("leaves out the blank line after the last event", {}, "all"),
}

CHOICES = {
    "tool_index": ("kind", ("duplicate", "gap", "missing")),
    "line_ends": ("kind", ("crlf", "cr", "mixed")),
    "comments": ("place", ("before", "inside")),
    "write_cuts": ("at", ("letter", "line")),
    "huge_line": ("kind", ("comment", "data")),
    "usage_at": (
        "where",
        tuple(dict.fromkeys(place for places in USAGE_PLACES.values() for place in places)),
    ),
}
"""Shape → its parameter that is one of some words."""
