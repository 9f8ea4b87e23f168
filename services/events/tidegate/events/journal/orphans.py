"""What a dead owner left open is settled once, under the lock it lost, and never replayed."""

from collections.abc import Callable
from typing import NamedTuple

from tidegate.events import codec
from tidegate.events.clock import Clock
from tidegate.events.envelope import Draft, Envelope
from tidegate.events.ids import settlement_id
from tidegate.events.journal import frames
from tidegate.events.journal.store import JournalStore
from tidegate.events.money import Tokens, cost_nanousd
from tidegate.events.registry import type_of
from tidegate.events.signals import AttemptStarted, UsageSettled


class Orphan(NamedTuple):
    """An attempt that was started and not settled by a dead source."""

    frame: frames.Frame
    envelope: Envelope
    started: AttemptStarted


def find_orphans(store: JournalStore) -> list[Orphan]:
    """Attempts open at the end of the journal: starts at or above the last mark without a settlement."""
    last = store.last_row()
    if last is None:
        return []
    open_frames: dict[bytes, frames.Frame] = {}
    for row in store.rows(last.mark):
        for frame in frames.unpack(row.frames):
            if frame.flag in frames.OPENING:
                open_frames[frame.key] = frame
            elif frame.flag == frames.SETTLED:
                open_frames.pop(frame.key, None)
    orphans: list[Orphan] = []
    for frame in open_frames.values():
        envelope = codec.decode_envelope(frame.value)
        orphans.append(Orphan(frame, envelope, codec.decode_data(envelope)))
    return orphans


def estimate(started: AttemptStarted) -> UsageSettled:
    """The settlement of an attempt of which only the start is known: charged at its full reserve, and as the tier
    it asked for is."""
    assumed = Tokens(
        input_uncached=started.input_tokens,
        output=started.reserve_output_tokens,
        service_tier=started.service_tier,
    )
    return UsageSettled(
        attempt=started.attempt,
        target=started.target,
        pool=started.pool,
        route=started.route,
        basis="estimated",
        outcome="orphaned",
        cost_nanousd=None if started.price is None else cost_nanousd(assumed, started.price),
        price=None if started.price is None else started.price.plain_for(assumed),
        windows=started.windows,
        input_estimate=started.known_input_estimate(),
        evidence=False,
    )


def settle_orphans(store: JournalStore, clock: Clock, source: Callable[[], str]) -> int:
    """Settle everything a dead owner left open, in one flush under a source of our own; returns how many.

    The caller holds the slot's lock (it opened `store`).
    """
    orphans = find_orphans(store)
    if not orphans:
        return 0
    name, now_ns, seq = source(), clock.wall_ns(), store.next_seq
    parts: list[bytes] = []
    for offset, orphan in enumerate(orphans):
        settled = estimate(orphan.started)
        kind, version = type_of(settled)
        value = codec.encode(
            Draft(
                id=settlement_id(settled.attempt),
                type=kind,
                v=version,
                ts=now_ns,
                source=name,
                seq=seq + offset,
                data=settled,
                tenant=orphan.envelope.tenant,
                request=orphan.envelope.request,
                session=orphan.envelope.session,
                cause=orphan.envelope.id,
            )
        )
        frame = orphan.frame
        parts.append(frames.pack(frame.topic, frame.partition, frames.SETTLED, frame.key, value))
    store.insert(len(parts), seq + len(parts), name, now_ns, b"".join(parts))
    return len(orphans)
