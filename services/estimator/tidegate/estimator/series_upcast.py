"""Reads the column of a consumption series as it was while one filter stood where now is a bank of six."""

from tidegate.estimator import activity, bank, calibration
from tidegate.estimator.series_fields import UNSEEN

_PLACE = 4
_LEVEL = _PLACE + len(activity.FIELDS)
_UPDATES = _LEVEL + 7
ONE_FILTER_FIELDS = _UPDATES + 1 + len(bank.FIELDS) - bank.KNOT.start


def upcast(numbers: list[float]) -> list[float]:
    """Every member of the bank begins where the one filter stood, equally trusted; no forecast waits."""
    members = [number for number in numbers[_LEVEL:_UPDATES] for _ in range(bank.MEMBERS)]
    return [
        *numbers[:_PLACE],
        *(UNSEEN, 0.0),
        *numbers[_PLACE:_LEVEL],
        *members,
        *(0.0,) * bank.MEMBERS,
        *numbers[_UPDATES:],
        *calibration.PRIOR,
    ]
