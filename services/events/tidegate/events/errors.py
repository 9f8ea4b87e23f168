"""Three families a caller can act on: Refused (do not retry), Unavailable (try later), Broken (alert)."""


class TidegateError(Exception):
    """Root of every error of ours; `code` is closed and safe to show."""

    code = "internal_error"


class Refused(TidegateError):
    """The caller's fault: the same call will fail again."""

    code = "refused"


class Unavailable(TidegateError):
    """Try later or elsewhere."""

    code = "unavailable"

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Broken(TidegateError):
    """Our fault or the machine's: alert, do not hide."""

    code = "broken"


class UnknownEvent(Broken):
    """A known envelope with an unknown type or version: consumers must be upgraded first."""

    code = "unknown_event"


class NotAnEnvelope(Refused):
    """Bytes that are no envelope: dead letter."""

    code = "not_an_envelope"


class BeyondBounds(NotAnEnvelope):
    """An event with a number that no consumer can hold, now or ever: dead letter too."""

    code = "beyond_bounds"


class JournalUnwritable(Unavailable):
    """The journal cannot take the event (disk full, read-only folder, byte cap, closed)."""

    code = "journal_unwritable"


class JournalCorrupt(Broken):
    """The journal file is damaged; it was left untouched."""

    code = "journal_corrupt"


class SlotTaken(Refused):
    """Another live process owns this journal slot."""

    code = "slot_taken"


class AlreadySettled(Refused):
    """A second settlement for an attempt, or one for an attempt that was never started."""

    code = "already_settled"


class LogUnavailable(Unavailable):
    """The event log cannot be reached or written now; nothing of the call took effect."""

    code = "log_unavailable"


class AckUnknown(Unavailable):
    """The log may or may not hold the records: drop the producer and rewind to the first unacknowledged."""

    code = "ack_unknown"


class Fenced(Refused):
    """A younger writer with the same transactional id exists."""

    code = "fenced"


class LogCorrupt(Broken):
    """A log file is damaged; it was left untouched."""

    code = "log_corrupt"
