"""The forecast: certain where it can be, monotone, calibrated on its own world."""

import numpy as np

from tidegate.estimator.consumption import Consumption
from tidegate.estimator.draws import DRAWS, NOISE_NORMALS, SERIES_NORMALS
from tidegate.estimator.exhaustion import Forecast, forecast, will_exhaust
from tidegate.estimator.pace import Pace

NS = 1_000_000_000
WINDOW_NS = 5 * 3600 * NS
BIN_NS = WINDOW_NS // 30
ONE = np.array([0])


def _steady(days: int = 6, units: int = 1000, n: int = 1) -> Consumption:
    series = Consumption(n)
    series.open_series(np.arange(n), np.full(n, WINDOW_NS))
    for bin_ in range(days * 144):
        series.observe(np.arange(n), np.full(n, bin_ * BIN_NS), np.full(n, units))
    return series


def _ask(series: Consumption, now_bin: float, reset_bin: float, remaining: float) -> Forecast:
    reset = np.array([int(reset_bin * BIN_NS)])
    return forecast(series, ONE, int(now_bin * BIN_NS), reset, np.array([remaining]))


def test_steady_use_is_foreseen_in_amount_and_time() -> None:
    series = _steady()
    ask = _ask(series, 864, 884, 10_000)
    assert ask.p_exhaust[0] > 0.9
    assert abs(ask.demand_mean[0] - 20_000) < 3_000
    assert abs(ask.exhaust_mean_s[0] - 6000) < 900
    assert ask.exhaust_p10_s[0] <= ask.exhaust_p50_s[0] <= ask.exhaust_p90_s[0]
    assert 0 < ask.exhaust_var_s2[0] < 2000.0**2
    assert _ask(series, 864, 884, 60_000).p_exhaust[0] < 0.05


def test_probability_falls_with_quota_and_grows_with_time_left() -> None:
    series = _steady()
    by_quota = [_ask(series, 864, 884, q).p_exhaust[0] for q in (0, 1e3, 1e4, 1.9e4, 2.1e4, 4e4, 1e9)]
    assert by_quota == sorted(by_quota, reverse=True)
    by_time = [_ask(series, 864, 864 + h, 1.5e4).p_exhaust[0] for h in (0.1, 5, 10, 14, 16, 20, 28)]
    assert by_time == sorted(by_time)


def test_nothing_left_is_certain_and_now() -> None:
    ask = _ask(_steady(days=1), 144, 150, 0.0)
    assert ask.p_exhaust[0] == 1.0
    assert ask.exhaust_mean_s[0] == 0.0


def test_no_time_left_means_no_demand() -> None:
    series = _steady(days=1)
    for reset in (144.0, 120.0):
        ask = _ask(series, 144, reset, 1.0)
        assert ask.demand_mean[0] == 0.0
        assert ask.p_exhaust[0] < 0.01
        assert np.isnan(ask.exhaust_mean_s[0])


def test_a_series_never_seen_is_unknown() -> None:
    series = Consumption(2)
    series.open_series(np.array([1]), np.array([WINDOW_NS]))
    ask = forecast(series, np.array([0, 1]), BIN_NS, np.full(2, 9 * BIN_NS), np.ones(2))
    for numbers in ask:
        assert np.all(np.isnan(numbers))


def test_one_use_in_the_open_bin_is_enough_for_a_first_belief() -> None:
    series = Consumption(1)
    series.open_series(ONE, np.array([WINDOW_NS]))
    series.observe(ONE, np.array([100 * BIN_NS]), np.array([500]))
    ask = _ask(series, 100.5, 120, 1e12)
    assert 0.0 < ask.p_exhaust[0] < 0.2
    assert ask.demand_mean[0] > 0


def test_a_horizon_beyond_a_window_is_cut_there() -> None:
    series = _steady(days=1)
    cut, far = _ask(series, 144, 144 + 32, 1e4), _ask(series, 144, 144 + 5000, 1e4)
    assert far.demand_mean[0] == cut.demand_mean[0]
    assert far.p_exhaust[0] == cut.p_exhaust[0]


def test_the_demand_draws_are_ascending_and_agree_with_their_moments() -> None:
    ask = _ask(_steady(), 864, 880, 1e4)
    assert ask.demand.shape == (DRAWS, 1)
    assert np.all(np.diff(ask.demand[:, 0]) >= 0)
    assert np.isclose(ask.demand.mean(), ask.demand_mean[0])
    assert np.isclose(ask.demand.var(), ask.demand_var[0])


def test_half_way_through_windows_of_a_known_law_it_beats_the_base_rate_without_bias() -> None:
    rng = np.random.default_rng(11)
    n, windows = 100, 30
    series, everyone = Consumption(n), np.arange(n)
    series.open_series(everyone, np.full(n, WINDOW_NS))
    stop, start = rng.uniform(0.05, 0.4, n), rng.uniform(0.05, 0.4, n)
    mean, sd = rng.normal(8, 2, n), rng.uniform(0.2, 1.0, n)
    active = rng.random(n) < 0.5
    use = np.zeros((windows * 30, n))
    for bin_ in range(windows * 30):
        active = np.where(active, rng.random(n) > stop, rng.random(n) < start)
        use[bin_] = np.where(active, np.ceil(np.exp(mean + sd * rng.standard_normal(n))), 0)
    by_window = use.reshape(windows, 30, n)
    quota = np.quantile(by_window[:15].sum(axis=1), 0.7, axis=0)
    asked: list[np.ndarray] = []
    happened: list[np.ndarray] = []
    for bin_ in range(windows * 30):
        busy = np.flatnonzero(use[bin_])
        series.observe(busy, np.full(busy.size, bin_ * BIN_NS), use[bin_, busy].astype(np.int64))
        window, place = divmod(bin_, 30)
        if window >= 15 and place == 14:
            used = by_window[window, :15].sum(axis=0)
            some = np.flatnonzero(used < quota)
            now, reset = (bin_ + 1) * BIN_NS, np.full(some.size, (window + 1) * WINDOW_NS)
            asked.append(forecast(series, some, now, reset, (quota - used)[some]).p_exhaust)
            happened.append((by_window[window].sum(axis=0) >= quota)[some])
    p, outcome = np.concatenate(asked), np.concatenate(happened).astype(float)
    base = outcome.mean()
    assert ((p - outcome) ** 2).mean() < 0.85 * base * (1 - base)
    assert abs(p.mean() - base) < 0.06


def test_the_draw_table_is_a_constant_latin_hypercube() -> None:
    for row in (*SERIES_NORMALS, *NOISE_NORMALS):
        assert np.array_equal(np.sort(row), np.sort(SERIES_NORMALS[0]))
        assert abs(row.mean()) < 1e-12
    assert np.argsort(SERIES_NORMALS[0])[:4].tolist() == [7, 1, 28, 15]


def test_acting_as_if_it_runs_dry_weighs_the_cost_of_both_errors() -> None:
    p = np.array([0.05, 0.2, 0.6, np.nan])
    one = np.ones(4)
    assert will_exhaust(p, one, one).tolist() == [False, False, True, False]
    assert will_exhaust(p, one, 9.0 * one).tolist() == [False, True, True, False]
    assert will_exhaust(p, np.array([1e-6, 9.0, 9.0, 1.0]), one).tolist() == [True, False, False, False]


def test_what_others_use_of_the_same_quota_is_added() -> None:
    ours, theirs = _steady(), _steady(units=3000)
    reset, left = np.array([884 * BIN_NS]), np.array([40_000.0])
    alone = forecast(ours, ONE, 864 * BIN_NS, reset, left)
    both = forecast(ours, ONE, 864 * BIN_NS, reset, left, outside=(theirs, ONE))
    assert alone.p_exhaust[0] < 0.1
    assert both.p_exhaust[0] > 0.9
    assert 3.5 < both.demand_mean[0] / alone.demand_mean[0] < 4.5


def test_a_quota_known_within_bounds_blurs_the_answer_and_does_not_move_it() -> None:
    series = _steady()
    doubt = np.linspace(-8000.0, 8000.0, DRAWS)[:, None]
    reset = np.array([884 * BIN_NS])
    asks = {
        left: [
            forecast(series, ONE, 864 * BIN_NS, reset, remaining).p_exhaust[0]
            for remaining in (np.array([left]), left + doubt)
        ]
        for left in (14_000.0, 26_000.0)
    }
    assert asks[14_000.0][0] > asks[14_000.0][1] > 0.5 > asks[26_000.0][1] > asks[26_000.0][0]


def test_the_record_of_a_steady_series_is_published_with_its_forecast() -> None:
    ask = _ask(_steady(), 864, 884, 1e4)
    assert ask.settled[0] > 20
    assert 0.5 < ask.coverage_80[0] <= ask.coverage_90[0] <= 1.0


def test_absurd_values_are_forgotten_and_poison_nothing() -> None:
    calm, hit = _steady(), _steady()
    for bin_ in range(864, 1000):
        for series in (calm, hit):
            absurd = series is hit and bin_ in (870, 880, 900)
            units = np.array([2**62 if absurd else 1000])
            series.observe(ONE, np.array([bin_ * BIN_NS]), units)
    assert np.all(np.isfinite(hit.data))
    left = 15_000.0
    one, two = _ask(calm, 1000, 1020, left), _ask(hit, 1000, 1020, left)
    assert abs(one.p_exhaust[0] - two.p_exhaust[0]) < 0.1
    assert 0.7 < two.demand[DRAWS // 2, 0] / one.demand[DRAWS // 2, 0] < 1.4


def test_the_pace_of_a_window_moves_its_chance_but_not_what_is_certain() -> None:
    series, now, reset = _steady(), 864 * BIN_NS, np.array([884 * BIN_NS])

    def chance(used: float, left: float) -> float:
        pace = Pace(np.array([used]), np.array([1 / 3]))
        return float(forecast(series, ONE, now, reset, np.array([left]), pace=pace).p_exhaust[0])

    plain = float(_ask(series, 864, 884, 20_000).p_exhaust[0])
    assert chance(15_000, 20_000) > plain > chance(5_000, 20_000)
    assert chance(20_000, 0.0) == 1.0
    # Where the quota itself is a guess, its middle counts.
    guess = np.linspace(19_000.0, 21_000.0, DRAWS)[:, None]
    pace = Pace(np.array([15_000.0]), np.array([1 / 3]))
    without = forecast(series, ONE, now, reset, guess).p_exhaust[0]
    assert forecast(series, ONE, now, reset, guess, pace=pace).p_exhaust[0] > without


def test_every_window_of_many_has_its_own_pace() -> None:
    series, n = _steady(n=300), 300
    used = np.linspace(1_000.0, 20_000.0, n)
    pace = Pace(used, np.full(n, 1 / 3))
    reset, left = np.full(n, 884 * BIN_NS), np.full(n, 20_000.0)
    p = forecast(series, np.arange(n), 864 * BIN_NS, reset, left, pace=pace).p_exhaust
    assert np.all(np.diff(p) > 0)
