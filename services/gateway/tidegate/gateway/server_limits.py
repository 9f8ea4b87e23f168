"""Every bound of the tenant listener in one place: bytes, fields, connections and seconds."""

from dataclasses import dataclass, fields

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds of one listener; all are enforced before a byte reaches the application.

    Raises ValueError naming the field when a value is not positive.
    """

    max_head_bytes: int = 64 * KIB
    max_fields: int = 100
    max_body_bytes: int = 32 * MIB
    max_connections: int = 8192
    header_deadline_s: float = 10.0
    """From the first byte of a request to the end of its head."""
    body_deadline_s: float = 60.0
    """From the end of the head to the end of the body; stands still while we have paused reading."""
    keep_alive_s: float = 75.0
    client_stall_s: float = 60.0
    """A client that takes no byte for this long while bytes wait for it is dropped as `client_slow`."""
    linger_s: float = 2.0
    """After a refusal, how long input is read and thrown away so that the answer is not lost to a reset."""
    read_high_water_bytes: int = 256 * KIB
    """Unread body at which reading pauses until the application asks for it."""
    max_held_body_bytes: int = 512 * MIB
    """Bodies of all running requests together: each is kept until its request ends, for failover."""
    write_high_water_bytes: int = 64 * KIB
    """Unsent answer at which `Exchange.write_paused` turns true."""
    drain_grace_s: float = 30.0
    settle_grace_s: float = 5.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise ValueError(f"server limit {field.name} must be positive")
