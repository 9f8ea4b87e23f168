"""Transactional writer of the SQLite log: records and positions in one commit of one role's file."""

from collections.abc import Mapping, Sequence

from tidegate.events.errors import LogUnavailable, Refused
from tidegate.events.log.places import role_of, topic_at
from tidegate.events.log.port import Outgoing, TopicPartition
from tidegate.events.log.sqlite_role import Fence, RoleFile


class SqliteWriter:
    """Fenced in every file its process writes; its positions live in one of them, the first it stores in."""

    def __init__(self, files: Mapping[str, RoleFile], fences: Mapping[str, Fence], home: str | None) -> None:
        self._files = files
        self._fences = fences
        self._home = home
        self._open = True

    @classmethod
    async def open(cls, files: Mapping[str, RoleFile], transactional_id: str) -> "SqliteWriter":
        """Fence every earlier writer of this id. Raises Refused when the log is open for reading only."""
        if not files:
            raise Refused("this log was opened for reading only: it has no transactional writers")
        fences = {role: await file.raise_epoch(transactional_id) for role, file in files.items()}
        stored = [role for role, file in files.items() if await file.positions(transactional_id)]
        return cls(files, fences, stored[0] if stored else None)

    async def positions(self) -> Mapping[TopicPartition, int]:
        """Positions stored by the last commit under this id."""
        self._check_open()
        if self._home is None:
            return {}
        return await self._files[self._home].positions(self._fences[self._home].writer)

    async def commit(
        self, records: Sequence[Outgoing], positions: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Append and store positions in one transaction; see `Writer.commit`.

        Raises Refused when the records' role is not open here, or is not the one that holds the positions.
        """
        self._check_open()
        for where in positions or {}:
            topic_at(where)
        role = role_of(records) or self._home or next(iter(self._files))
        if role not in self._files:
            raise Refused(f"this log was opened for writing {', '.join(self._files)}, not {role}")
        if positions:
            self._home = self._home or role
            if role != self._home:
                raise Refused(
                    f"positions are in the file of {self._home}; records of {role} cannot join them"
                )
        await self._files[role].append(records, self._fences[role], positions)

    async def close(self) -> None:
        """Nothing is committed."""
        self._open = False

    def _check_open(self) -> None:
        if not self._open:
            raise LogUnavailable("this transactional writer is closed")
