"""What the speed bench measures is what it says."""

import numpy as np

from bench.forecast.speed import bank_of
from tidegate.estimator import bank


def test_a_step_of_six_states_moves_three_members_and_the_shared_shape_and_nothing_else() -> None:
    state = np.repeat(np.array(bank.PRIOR)[:, None], 5, axis=1)
    before, narrow = state.copy(), bank_of(3)
    narrow.predict(state, np.ones(5), np.full(5, 600_000.0))
    narrow.update(state, np.zeros(5), np.full(5, 7.0))
    moved = np.flatnonzero((state != before).any(axis=1))
    own = {bank.UPDATES, *range(bank.KNOT.start, bank.KNOT_VAR.stop)}
    for group in (
        bank.SLOW,
        bank.FAST,
        bank.P00,
        bank.P01,
        bank.P11,
        bank.SCALE,
        bank.WEIGHT,
        bank.LOG_WEIGHT,
    ):
        own |= set(range(group.start, group.start + 3))
    assert set(moved.tolist()) <= own
    assert {0, 1, 2} <= set(moved.tolist())
    assert bank.MEMBERS == 6, "the bank itself stays whole"
