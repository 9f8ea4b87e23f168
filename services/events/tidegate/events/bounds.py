"""Bounds of every integer in an event: what is beyond them is no event of ours, whoever wrote it.

Consumers keep integers of 64 bits and add them up; one number too large would stop them for good.
"""

from typing import Annotated

import msgspec

MAX_COUNT = 10**17
MAX_NANOUSD = 2 * 10**18
MAX_NS = 4 * 10**18
MAX_UNTIL_NS = 2**63 - 1
MAX_UNITS = 2 * 10**18
MAX_MS = 10**12
MAX_SEED = 2**64 - 1

_PLAIN = {"form": "integer"}
"""How the reference names them: the bounds are wider than anything it tells of."""

Count = Annotated[int, msgspec.Meta(extra=_PLAIN, ge=-MAX_COUNT, le=MAX_COUNT)]
"""Tokens, bytes, places: all classes of a request add up."""
Nanousd = Annotated[int, msgspec.Meta(extra=_PLAIN, ge=-MAX_NANOUSD, le=MAX_NANOUSD)]
"""Money, and prices per million: two thousand million dollars, of which four add up."""
Ns = Annotated[int, msgspec.Meta(extra=_PLAIN, ge=-MAX_NS, le=MAX_NS)]
"""Times and durations: to the year 2096, and two of them add up."""
Until = Annotated[int, msgspec.Meta(extra=_PLAIN, ge=-MAX_UNTIL_NS, le=MAX_UNTIL_NS)]
"""Ends of something: the last instant of all says that it has none."""
Millis = Annotated[int, msgspec.Meta(extra=_PLAIN, ge=-MAX_MS, le=MAX_MS)]
"""Waits: in nanoseconds one still fits beside a time of today."""
Units = Annotated[int, msgspec.Meta(extra=_PLAIN, ge=-MAX_UNITS, le=MAX_UNITS)]
"""Units of quota windows, and versions and places of a log: four of them add up."""
Seq = Annotated[int, msgspec.Meta(extra=_PLAIN, ge=-MAX_UNITS, le=MAX_UNITS)]
"""Numbers that a source gives its events."""
Seed = Annotated[int, msgspec.Meta(extra=_PLAIN, ge=0)]
"""64 bits without a sign: a bound that the decoder cannot hold, so who keeps one looks at `MAX_SEED`."""
