"""What the Kafka adapter needs to know about its cluster."""

import ssl
from dataclasses import dataclass, field
from typing import Any, Literal

# aiokafka retries a refused connection at once unless told to wait.
RETRY_BACKOFF_MS = 100
_REQUEST_TIMEOUT_MS = 5_000
_METADATA_MAX_AGE_MS = 5_000


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Connection, deadlines and durability.

    `client_id` names one running process: two with the same fence each other's appends to topics that keep
    latest records. `prefix` goes before every name in the cluster. `ack_deadline_s` bounds an append or
    commit and stays below `transaction_timeout_s`, after which the broker aborts on its own.
    `stalled_s`: a reader that hears nothing from a broker for so long reports it.
    """

    bootstrap: str
    client_id: str
    prefix: str = ""
    replication: int = 3
    min_in_sync: int = 2
    ack_deadline_s: float = 8.0
    query_deadline_s: float = 10.0
    stalled_s: float = 15.0
    transaction_timeout_s: float = 10.0
    compression: Literal["gzip", "lz4", "snappy", "zstd"] | None = "zstd"
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ssl_context: ssl.SSLContext | None = None
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.ack_deadline_s < self.transaction_timeout_s:
            raise ValueError(
                f"ack_deadline_s ({self.ack_deadline_s}) must lie between 0 and transaction_timeout_s"
                f" ({self.transaction_timeout_s})"
            )
        if not 1 <= self.min_in_sync <= self.replication:
            raise ValueError(
                f"min_in_sync ({self.min_in_sync}) must lie between 1 and replication ({self.replication})"
            )

    def client_options(self) -> dict[str, Any]:
        """The arguments that every aiokafka client is made with."""
        return {
            "bootstrap_servers": self.bootstrap,
            "client_id": self.client_id,
            "request_timeout_ms": _REQUEST_TIMEOUT_MS,
            "retry_backoff_ms": RETRY_BACKOFF_MS,
            "metadata_max_age_ms": _METADATA_MAX_AGE_MS,
            "security_protocol": self.security_protocol,
            "ssl_context": self.ssl_context,
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_plain_username": self.sasl_username,
            "sasl_plain_password": self.sasl_password,
        }


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Verifying, host name checked, TLS 1.2 or newer; `ca_file` replaces the system's authorities.

    Raises OSError for a file that cannot be read or holds no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cafile=ca_file)
    return context
