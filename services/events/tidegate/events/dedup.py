"""What a consumer has seen of each source in one partition, so that nothing counts twice.

The relay sends a batch again after an unknown acknowledgement. A source's `seq` only grows within a
partition, so one number per source tells what was seen; it is stored together with the position.
"""

import msgspec

RETIRE_AFTER_NS = 7 * 86_400 * 1_000_000_000
"""How long after SourceClosed a repetition may still come."""


class Marks(msgspec.Struct, omit_defaults=True):
    """Marks of one (topic, partition). A plain value: encode and decode it as any struct."""

    seqs: dict[str, int] = {}
    """Newest `seq` seen per source."""
    closed: dict[str, int] = {}
    """When SourceClosed was seen, nanoseconds of the log's append time."""

    def accept(self, source: str, seq: int) -> bool:
        """True when the event is new, and remember it; False when it was seen: drop it."""
        seen = self.seqs.get(source)
        if seen is not None and seq <= seen:
            return False
        self.seqs[source] = seq
        return True

    def close(self, source: str, at_ns: int) -> None:
        """SourceClosed was seen. The first time counts, so a repetition does not prolong the life."""
        if source in self.seqs:
            self.closed.setdefault(source, at_ns)

    def retire(self, now_ns: int) -> tuple[str, ...]:
        """Forget sources closed for 7 days; returns which. `now_ns` is of the same clock as `close`."""
        gone = tuple(source for source, at_ns in self.closed.items() if now_ns - at_ns >= RETIRE_AFTER_NS)
        for source in gone:
            del self.closed[source]
            self.seqs.pop(source, None)
        return gone
