"""The simulator's own server-sent-events writer."""


def event(data: bytes, name: bytes | None = None) -> bytes:
    """One event of one data line, with an event name where the dialect has one."""
    if name is None:
        return b"data: " + data + b"\n\n"
    return b"event: " + name + b"\ndata: " + data + b"\n\n"


def comment(text: bytes) -> bytes:
    """A line that every client must skip."""
    return b": " + text + b"\n\n"
