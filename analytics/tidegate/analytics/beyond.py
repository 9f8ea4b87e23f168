"""Counts the decisions that the read model knows and the log at hand, an archive alone, does not reach."""

from tidegate.analytics.history import ends_of
from tidegate.analytics.ports import SqlSource
from tidegate.analytics.replay_verify import Only
from tidegate.analytics.sql import ask
from tidegate.events.errors import Unavailable
from tidegate.events.log.port import EventLog, TopicPartition
from tidegate.events.topics import REQUESTS

_BEYOND = """
SELECT count(*) FROM r_decisions
WHERE log_offset >= list_extract($ends, log_partition + 1)
  AND ($since_ns IS NULL OR now_ns >= $since_ns)
  AND ($route IS NULL OR route = $route) AND ($tenant IS NULL OR tenant = $tenant)
"""


async def decisions_beyond(log: EventLog, source: SqlSource | None, only: Only) -> int | None:
    """How many of the decisions that `only` takes lie beyond the log's end; None when no read model answers.

    Raises Refused, Unavailable (the log).
    """
    ends = await ends_of(log, REQUESTS)
    if source is None:
        return None
    listed = [ends[TopicPartition(REQUESTS.name, partition)] for partition in range(REQUESTS.partitions)]
    given = {"ends": listed, "since_ns": only.since_ns, "route": only.route, "tenant": only.tenant}
    try:
        answer = await ask(source, _BEYOND, given)
    except Unavailable:
        return None
    count: int = answer.rows[0][0]
    return count
