"""The exhaustion forecast against real traffic; the merit the model must keep."""

from functools import cache

import numpy as np
import pytest

from bench.forecast_servegen import (
    BINS_PER_WINDOW,
    Scores,
    Traffic,
    data_folder,
    gain_interval,
    load_traffic,
    pick_thirty,
    quotas,
    report,
    run,
)
from support.shared_data import shared_data

pytestmark = pytest.mark.slow


@cache
def _thirty() -> tuple[Traffic, Scores]:
    shared_data("data/servegen")
    folder = data_folder()
    assert folder is not None
    traffic = pick_thirty(load_traffic(folder))
    return traffic, run(traffic.tokens)


def test_thirty_clients_are_scored_below_0_09_and_below_base_rate_and_uvi() -> None:
    _, scores = _thirty()
    figures = report(scores)
    assert figures["clients"] == 30
    assert figures["brier"] <= 0.09
    assert figures["brier"] < 0.75 * figures["brier_uvi"]
    assert figures["brier"] < 0.5 * figures["brier_constant"]
    assert figures["ece"] <= 0.06


def test_the_gain_over_the_uvi_is_no_accident_of_which_clients_were_picked() -> None:
    _, scores = _thirty()
    assert gain_interval(scores, "uvi")[1] > 0
    assert gain_interval(scores, "constant")[1] > 0


def test_forecasts_do_not_see_the_future() -> None:
    traffic, scores = _thirty()
    cut = 40 * BINS_PER_WINDOW
    altered = traffic.tokens.copy()
    altered[:, cut:] = np.roll(altered[:, cut:], 7, axis=1) * 3
    assert np.array_equal(quotas(altered), quotas(traffic.tokens))
    until = 9 * (40 - 34)
    again = run(altered)
    for one, other in zip(scores.p[:until], again.p[:until], strict=True):
        assert np.array_equal(one, other)
    assert not np.array_equal(scores.p[until + 8], again.p[until + 8])
