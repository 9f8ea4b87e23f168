"""What the cache keeps: by age of a session's prefix, and over all prompts; numbers with their doubt."""

import pytest

from tidegate.estimator import cache

S = 10**9


def seen(*prefixes: tuple[int, int, float]) -> list[float]:
    """(read, prefix, age in seconds) in turn."""
    numbers = cache.fresh()
    for read, prefix, age_s in prefixes:
        cache.observe_prefix(numbers, read, prefix, int(age_s * S))
    return numbers


def test_before_evidence_survival_is_a_declared_prior_that_falls_with_age() -> None:
    known = cache.survival(cache.fresh())
    assert [each.to_age_s for each in known] == [60.0, 300.0, 900.0, 3_600.0, None]
    assert all(each.prior and 0 < each.mean < 1 and each.var > 0 for each in known)
    assert [each.mean for each in known] == sorted((each.mean for each in known), reverse=True)


def test_evidence_of_an_age_moves_only_its_class_and_narrows_it() -> None:
    before = cache.survival(cache.fresh())
    after = cache.survival(seen(*[(18_000, 20_000, 120.0)] * 200))
    assert after[1].mean == pytest.approx(0.89, abs=0.02)
    assert not after[1].prior
    assert after[1].var < before[1].var / 5
    assert after[0].mean == pytest.approx(0.95)
    assert after[2] == before[2]


def test_younger_than_what_was_seen_to_survive_survives_at_least_as_well() -> None:
    known = cache.survival(seen(*[(20_000, 20_000, 500.0)] * 300))
    assert known[2].mean > 0.92
    assert [each.mean for each in known[:3]] == [known[2].mean] * 3
    assert [each.prior for each in known] == [True, True, False, True, True]


def test_an_older_prefix_is_never_expected_to_survive_better() -> None:
    known = cache.survival(seen(*[(0, 20_000, 10.0)] * 100, *[(20_000, 20_000, 400.0)] * 100))
    means = [each.mean for each in known]
    assert means == sorted(means, reverse=True)


def test_a_short_prefix_counts_less_and_from_some_length_on_all_count_alike() -> None:
    known = [
        cache.survival(seen((0, tokens, 10.0)))[0].mean for tokens in (100, 1_000, 10_000, 20_000, 200_000)
    ]
    assert known[0] > known[1] > known[2] > known[3] == known[4]


def test_age_classes_are_half_open() -> None:
    known = [cache.survival(seen((1, 1, age))) for age in (59.9, 60.0, 299.9, 300.0, 3_600.0, 1e9)]
    assert [[each.prior for each in one].index(False) for one in known] == [0, 1, 1, 2, 4, 4]


def test_more_read_than_the_prefix_is_all_of_it() -> None:
    assert seen((5_000, 1_000, 1.0)) == seen((1_000, 1_000, 1.0))


def test_the_share_over_all_prompts_forgets_and_says_how_sure_it_is() -> None:
    numbers = cache.fresh()
    assert cache.share(numbers) is None
    cache.observe_share(numbers, 900, 1_000)
    once = cache.share(numbers)
    assert once is not None
    assert 0.5 < once.mean < 0.9
    for _ in range(500):
        cache.observe_share(numbers, 900, 1_000)
    often = cache.share(numbers)
    assert often is not None
    assert often.mean == pytest.approx(0.9, abs=0.005)
    assert often.var < once.var / 10
    for _ in range(500):
        cache.observe_share(numbers, 0, 1_000)
    cold = cache.share(numbers)
    assert cold is not None
    assert cold.mean < 0.02


def test_states_of_another_shape_are_refused_and_of_an_older_version_begin_anew() -> None:
    assert cache.restored([]) == cache.fresh()
    numbers = seen((1, 2, 3.0))
    assert cache.restored(numbers) == numbers
    assert cache.restored(numbers) is not numbers
    with pytest.raises(ValueError, match="needs 12"):
        cache.restored([1.0])
