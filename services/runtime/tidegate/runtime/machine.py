"""What every role of this process stands on: settings, folders, clock, ids, the log it may write."""

import contextlib
import os
import re
import secrets
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tidegate.events.clock import Clock, SystemClock
from tidegate.events.config import LogSettings, Settings
from tidegate.events.ids import IdSource
from tidegate.events.journal.journal import Journal
from tidegate.events.log.port import EventLog
from tidegate.runtime.made_once import make_once
from tidegate.runtime.settings import ConfigInvalid, environment, resolve_secret, secret_bytes

if TYPE_CHECKING:
    from tidegate.events.log.kafka_settings import KafkaSettings

DATA_KEY_BYTES = 32
MAX_SOCKET_PATH_BYTES = 103
"""What a socket's address holds everywhere, its end mark included."""

_PROTOCOLS: dict[tuple[bool, bool], Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]] = {
    (False, False): "PLAINTEXT",
    (False, True): "SSL",
    (True, False): "SASL_PLAINTEXT",
    (True, True): "SASL_SSL",
}


class Machine:
    """One process's view of its surroundings. Holds no secret."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        env: Mapping[str, str] | None = None,
        base: Path | None = None,
    ) -> None:
        self.settings = settings
        self.clock: Clock = clock or SystemClock()
        self.ids = IdSource(self.clock, secrets.randbits)
        self.env = environment() if env is None else env
        # Not `resolve`: links in a circle are told by whoever opens the folder.
        self.data_dir = Path(os.path.realpath((base or Path.cwd()) / settings.data_dir))
        self.client_id = _client_id()

    @property
    def run_dir(self) -> Path:
        """Sockets of running processes."""
        return self.data_dir / "run"

    @property
    def log_dir(self) -> Path:
        """The embedded log's files."""
        return self.data_dir / "log"

    @property
    def archive_dir(self) -> Path:
        """Parquet files and their manifest."""
        return self.data_dir / "archive"

    @property
    def projections_path(self) -> Path:
        """The read models' file."""
        return self.data_dir / "projections.duckdb"

    @property
    def query_socket(self) -> Path:
        """Where the projector answers SQL."""
        return self.run_dir / "projector.sock"

    @property
    def admin_token_path(self) -> Path:
        """The admin credential, where none is configured."""
        return self.data_dir / "admin.token"

    def make_folders(self) -> None:
        """Create the folders that roles share, for us only."""
        for folder in (self.data_dir, self.run_dir, self.data_dir / "journals"):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)

    def open_log(self, roles: Iterable[str] = ()) -> EventLog:
        """The shared log, writable for the named roles only. Raises LogUnavailable, LogCorrupt.

        A Kafka log connects on first use.
        """
        log = self.settings.log
        if log.kind == "kafka":
            from tidegate.events.log.kafka import KafkaEventLog

            return KafkaEventLog(self.kafka_settings())
        from tidegate.events.log.sqlite import SqliteEventLog

        return SqliteEventLog.open(self.log_dir, frozenset(roles), self.clock)

    def kafka_settings(self) -> "KafkaSettings":
        """How this process reaches its Kafka. Raises ConfigInvalid: no Kafka log, no password, no CA file."""
        from tidegate.events.log.kafka_settings import KafkaSettings, tls_context

        log = self.settings.log
        if log.bootstrap is None:
            raise ConfigInvalid(['log.bootstrap: this command needs a Kafka log (kind = "kafka")'])
        return KafkaSettings(
            bootstrap=log.bootstrap,
            client_id=self.client_id,
            prefix=log.topic_prefix,
            replication=log.replication,
            min_in_sync=min(2, log.replication),
            compression=None if log.compression == "none" else log.compression,
            security_protocol=_PROTOCOLS[log.sasl is not None, log.tls],
            ssl_context=tls_context(log.ca_file) if log.tls else None,
            sasl_mechanism=log.sasl or "PLAIN",
            sasl_username=log.username,
            sasl_password=self._kafka_password(log),
        )

    def _kafka_password(self, log: LogSettings) -> str | None:
        return None if log.password is None else resolve_secret(log.password, self.env, "log.password")

    def journal_dir(self, slot: str) -> Path:
        """The journal of a slot."""
        return self.data_dir / "journals" / slot

    async def open_journal(self, slot: str) -> Journal:
        """This process's own journal slot."""
        log = self.settings.log
        return await Journal.open(
            self.journal_dir(slot),
            self.clock,
            self.ids,
            durability=self.settings.durability,
            reserve_bytes=log.reserve_bytes,
            max_bytes=log.journal_max_bytes,
        )

    def data_key(self) -> bytes:
        """The secret that keys session digests, the same for all gateways. Raises ConfigInvalid.

        From the config's reference; else from a file of the data folder, made at first start.
        """
        reference = self.settings.data_key
        if reference is not None:
            return data_key_of(secret_bytes(reference, self.env, "data_key"), reference)
        path = self.data_dir / "data.key"
        make_once(path, secrets.token_bytes(DATA_KEY_BYTES))
        content = path.read_bytes()
        where = str(path) if content else f"{path} (it is empty: delete it, and a new one is made)"
        return data_key_of(content, where)


def data_key_of(content: bytes, where: str) -> bytes:
    """The key in a file or variable: 32 bytes as they are, or as 64 hex digits. Raises ConfigInvalid."""
    if len(content) == DATA_KEY_BYTES:
        return content
    with contextlib.suppress(ValueError):
        key = bytes.fromhex(content.decode("ascii"))
        if len(key) == DATA_KEY_BYTES:
            return key
    raise ConfigInvalid(
        [f"{where} must hold {DATA_KEY_BYTES} bytes or their {DATA_KEY_BYTES * 2} hex digits, nothing else"]
    )


def _client_id() -> str:
    """One process's name in Kafka: pids repeat between containers, and host names between networks."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:64]
    return f"tidegate-{host}-{os.getpid()}-{secrets.token_hex(4)}"
