"""Where the parts of a consumption series lie in its column, shared by who writes and who rolls them forward."""

from tidegate.estimator import activity, bank, calibration

BINS_PER_WINDOW = 30
BIN_MS, BIN, OPEN_UNITS, LEVEL_BIN, ASKED_BIN, SPENT = range(6)
"""Width, open bin and its units, last bin the bank saw; bin of the forecast under watch and what was used since."""
CHAIN = slice(6, 6 + len(activity.FIELDS))
LEVEL = slice(CHAIN.stop, CHAIN.stop + len(bank.FIELDS))
RECORD = slice(LEVEL.stop, LEVEL.stop + len(calibration.FIELDS))
UNSEEN = -1.0
FIELDS: tuple[str, ...] = (
    *("bin_ms", "bin", "open_units", "level_bin", "asked_bin", "spent"),
    *activity.FIELDS,
    *bank.FIELDS,
    *calibration.FIELDS,
)
PRIOR: tuple[float, ...] = (
    *(0.0, UNSEEN, 0.0, UNSEEN, UNSEEN, 0.0),
    *activity.PRIOR,
    *bank.PRIOR,
    *calibration.PRIOR,
)
