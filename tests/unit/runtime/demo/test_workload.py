"""The generated workload: seeded, in order, growing, of a size that a demo can send."""

from itertools import pairwise

import pytest

from tidegate.runtime.demo.workload import BLOCK_TOKENS, TENANTS, clip, generate


def test_the_same_seed_gives_the_same_workload_and_another_seed_another() -> None:
    assert generate(10, 3) == generate(10, 3)
    assert generate(10, 3) != generate(10, 4)


@pytest.mark.parametrize("seed", range(5))
def test_forty_sessions_are_some_hundred_requests_of_two_to_twenty_thousand_tokens(seed: int) -> None:
    workload = generate(40, seed)
    assert 300 <= len(workload.requests) <= 500
    assert len({request.session for request in workload.requests}) == workload.sessions == 40
    assert min(request.input_tokens for request in workload.requests) >= 2_000
    assert max(request.input_tokens for request in workload.requests) <= 20_000 + BLOCK_TOKENS
    assert workload.input_tokens() * 4 < 40_000_000


def test_requests_are_in_order_of_time_and_both_tenants_and_both_modes_occur() -> None:
    requests = generate(40, 7).requests
    assert all(before.at_s <= after.at_s for before, after in pairwise(requests))
    assert {request.tenant for request in requests} == set(TENANTS)
    assert {request.stream for request in requests} == {True, False}


def test_prompts_of_a_session_grow_and_begin_with_the_prompt_before() -> None:
    for strand in generate(40, 7).strands():
        for before, after in pairwise(strand):
            assert after.at_s > before.at_s
            assert after.input_tokens >= before.input_tokens - BLOCK_TOKENS
            assert before.spans[0] == after.spans[0]
            assert after.spans[1].blocks >= before.spans[1].blocks


def test_sessions_of_a_tenant_share_the_head_of_their_prompts() -> None:
    heads = {(request.tenant, request.spans[0]) for request in generate(40, 7).requests}
    assert len(heads) == len(TENANTS)


def test_clipping_says_how_many_prompts_it_cut_and_leaves_the_others() -> None:
    workload = generate(20, 7)
    limit = 8_000
    longer = sum(request.input_tokens > limit for request in workload.requests)
    clipped = clip(workload, limit)
    assert 0 < longer == clipped.clipped < len(workload.requests)
    assert max(request.input_tokens for request in clipped.requests) == limit
    untouched = [request for request in workload.requests if request.input_tokens <= limit]
    assert [request for request in clipped.requests if request in untouched] == untouched
    assert clip(workload, 1_000_000) is workload
