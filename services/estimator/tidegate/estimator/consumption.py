"""Consumption of a quota window: activity chain × bank of log-rate filters over bins of a thirtieth of the window.

Once a window length a forecast of the next half window is put aside and settled (see `calibration`), so each
series knows how far its own forecasts can be trusted.
"""

import numpy as np

from tidegate.estimator import activity, bank, calibration
from tidegate.estimator.columns import BoolArray, Columns, FloatArray, IntArray, milliseconds
from tidegate.estimator.paths import roll
from tidegate.estimator.rounds import coalesce, scan
from tidegate.estimator.series_fields import (
    ASKED_BIN,
    BIN,
    BIN_MS,
    BINS_PER_WINDOW,
    CHAIN,
    FIELDS,
    LEVEL,
    LEVEL_BIN,
    OPEN_UNITS,
    PRIOR,
    RECORD,
    SPENT,
    UNSEEN,
)
from tidegate.estimator.series_upcast import ONE_FILTER_FIELDS, upcast

ASK_AT = BINS_PER_WINDOW // 2
"""A forecast is put aside where the number of a bin, modulo a window's, is this; it looks as many bins ahead."""

CLOSED_ONE_BY_ONE = 512
"""Windows of a gap that are closed one after the other. What is idle for longer is closed in one step: nothing is
put aside there any more, and a window of a minute may be idle for months."""


class Consumption(Columns):
    """One series per quota window. Bins lie at multiples of their width; bins close lazily, when a later event
    or a question needs them. Idle bins count only in the chain; they never pull the level down."""

    FIELDS = FIELDS
    PRIOR = PRIOR

    def open_series(self, idx: IntArray, window_ns: IntArray) -> None:
        """Give series their bin width, window ÷ 30, at least a millisecond. The first width stays for life."""
        width = np.maximum(np.floor(milliseconds(window_ns) / BINS_PER_WINDOW), 1.0)
        self.data[BIN_MS, idx] = np.where(self.data[BIN_MS, idx] > 0, self.data[BIN_MS, idx], width)

    def load(self, i: int, numbers: list[float]) -> None:
        """Restore what `row` gave, also of the time before the bank. Raises ValueError when it fits neither."""
        super().load(i, upcast(numbers) if len(numbers) == ONE_FILTER_FIELDS else numbers)

    def observe(self, idx: IntArray, ts_ns: IntArray, units: IntArray) -> int:
        """Count uses in model time; subjects may repeat and keep their order.

        Returns how many (merged) observations were too late for the rate and left out; ledgers count them.
        Raises ValueError for a series that was never opened.
        """
        width = self.data[BIN_MS, idx]
        if np.any(width <= 0):
            raise ValueError("consumption series used before open_series gave it a bin width")
        bins = np.floor(milliseconds(ts_ns) / width).astype(np.int64)
        who, bin_, total = coalesce(idx, bins, np.maximum(units, 0))
        late = 0

        def add(block: FloatArray, to_bin: FloatArray, used: FloatArray) -> None:
            nonlocal late
            late += _add(block, to_bin, used)

        scan(self, who, (bin_.astype(np.float64), total.astype(np.float64)), add)
        return late

    def censor(self, idx: IntArray, ts_ns: IntArray) -> None:
        """Jump to `ts_ns` (unique `idx`) without learning from the time between.

        What is not served after exhaustion was not seen: it is missing, not idle.
        """
        block = self.take(idx)
        to_bin = np.floor(milliseconds(ts_ns) / block[BIN_MS])
        ahead = (block[BIN] >= 0) & (to_bin > block[BIN])
        _close_where(block, ahead, block[BIN] + 1.0)
        block[BIN] = np.where(ahead, to_bin, block[BIN])
        block[ASKED_BIN] = np.where(ahead, UNSEEN, block[ASKED_BIN])
        self.put(idx, block)

    def closed_at(self, idx: IntArray, now_ns: int) -> FloatArray:
        """The columns as they stand at `now_ns` with every earlier bin closed; the state itself is unchanged."""
        block = self.take(idx)
        now_ms = float(now_ns // 1_000_000)
        to_bin = np.floor(now_ms / np.maximum(block[BIN_MS], 1.0))
        due = (block[BIN] >= 0) & (to_bin > block[BIN])
        _close_where(block, due, to_bin)
        return block


def _add(block: FloatArray, bins: FloatArray, units: FloatArray) -> int:
    """One observation per series, in place; returns how many were late."""
    np.copyto(block[BIN], bins, where=block[BIN] < 0)
    _close_where(block, bins > block[BIN], bins)
    late = bins < block[BIN]
    block[OPEN_UNITS] += np.where(late, 0.0, units)
    return int(np.count_nonzero(late))


def _close_where(block: FloatArray, due: BoolArray, to_bin: FloatArray) -> None:
    """Close the open bin of the `due` columns and the idle bins after it, and open `to_bin` (later than BIN)."""
    turns = 0
    while due.any():
        if due.all():
            _close(block, to_bin, at_once=turns >= CLOSED_ONE_BY_ONE)
        else:
            part = block[:, due]
            _close(part, to_bin[due], at_once=turns >= CLOSED_ONE_BY_ONE)
            block[:, due] = part
        turns += 1
        due = due & (to_bin > block[BIN])


def _close(block: FloatArray, to_bin: FloatArray, *, at_once: bool) -> None:
    """Close bins up to the next at which a forecast is put aside, or all of them up to `to_bin`."""
    ask_bin = block[BIN] - np.mod(block[BIN] - ASK_AT, BINS_PER_WINDOW) + BINS_PER_WINDOW
    asks = to_bin >= ask_bin
    if at_once or not asks.any():
        _close_bins(block, to_bin)
        return
    _close_bins(block, np.minimum(to_bin, ask_bin))
    asks &= (
        block[CHAIN][activity.AGE] <= BINS_PER_WINDOW
    )  # what has long been idle teaches nothing, at a price
    if asks.any():
        part = block[:, asks]
        _put_aside(part)
        block[:, asks] = part


def _put_aside(block: FloatArray) -> None:
    """Forecast the next half window of columns whose open bin just began."""
    known = block[LEVEL_BIN] >= 0
    horizon_ms = ASK_AT * block[BIN_MS]
    draws = np.sort(roll(block, block[BIN] * block[BIN_MS], horizon_ms).total(), axis=0)
    calibration.ask(block[RECORD], draws)
    block[ASKED_BIN] = np.where(known, block[BIN], UNSEEN)
    block[SPENT] = 0.0


def _settle(block: FloatArray, to_bin: FloatArray) -> None:
    due = (block[ASKED_BIN] >= 0) & (to_bin >= block[ASKED_BIN] + ASK_AT)
    if due.any():
        record = block[RECORD][:, due]
        calibration.settle(record, block[SPENT, due])
        block[RECORD][:, due] = record
        block[ASKED_BIN, due] = UNSEEN


def _close_bins(block: FloatArray, to_bin: FloatArray) -> None:
    width = block[BIN_MS]
    start = block[BIN] * width
    end = start + width
    active = block[OPEN_UNITS] > 0
    if active.any():
        _learn_level(block, active, start + 0.5 * width)
    chain = block[CHAIN]
    activity.close_bin(chain, active, start, end)
    idle = to_bin - block[BIN] - 1.0
    if (idle > 0).any():
        gap = idle > 0
        part = chain[:, gap]
        activity.close_idle(part, idle[gap], end[gap], (to_bin * width)[gap])
        chain[:, gap] = part
    block[SPENT] += np.where(block[ASKED_BIN] >= 0, block[OPEN_UNITS], 0.0)
    block[BIN] = to_bin
    block[OPEN_UNITS] = 0.0
    _settle(block, to_bin)


def _learn_level(block: FloatArray, active: BoolArray, centre_ms: FloatArray) -> None:
    last, now = block[LEVEL_BIN, active], block[BIN, active]
    bins = np.where(last < 0, 0.0, now - last)
    state = block[LEVEL] if active.all() else block[LEVEL][:, active]
    bank.predict(state, bins, bins * block[BIN_MS, active])
    bank.update(state, centre_ms[active], np.log(block[OPEN_UNITS, active]))
    block[LEVEL][:, active] = state
    block[LEVEL_BIN, active] = now
