"""The engine's named cases: what cannot be served, and what fails on the way. The others go on."""

from __future__ import annotations

import math

import pytest
from test_engine import CONFIG, PROMPT, alone, engine

from tinyserve.block_pool import BlockPool
from tinyserve.model import build
from tinyserve.request import Request


@pytest.mark.parametrize("options, told", [
    ({"prompt": []}, "the prompt is empty"),
    ({"prompt": [1, 40]}, "prompt token 40 is not a token id in 0 .. 39"),
    ({"prompt": [1, -1]}, "prompt token -1"),
    ({"prompt": ["a"]}, "prompt token 'a'"),
    ({"prompt": [1.0]}, "prompt token 1.0"),
    ({"max_tokens": 0}, "max_tokens=0 is not a whole number of at least 1"),
    ({"max_tokens": 2.5}, "max_tokens=2.5"),
    ({"max_tokens": 80}, "exceed the window of 64"),
    ({"max_tokens": 40}, "can never fit: 3 . 40 tokens need 11 blocks, the pool has 8"),
    ({"stop": "x"}, "needs an engine with a tokenizer"),
    ({"stop": [""]}, "is not a list of texts"),
    ({"priority": math.nan}, "priority=nan is not a number"),
    ({"priority": "high"}, "priority='high' is not a number"),
    ({"salt": [1]}, r"salt=\[1\] cannot be hashed"),
    ({"request_id": []}, r"request_id=\[\] cannot be hashed"),
])
def test_a_request_that_cannot_be_served_is_refused_and_others_go_on(options, told):
    served = engine(num_blocks=8, trace=[])
    first = served.add(PROMPT, max_tokens=4)
    served.step()
    with pytest.raises(ValueError, match=told):
        served.add(**({"prompt": [1, 2, 3]} | options))
    served.run()
    assert first.output == alone(PROMPT, max_tokens=4) and served.scheduler.idle


def test_generate_serves_those_that_can_be():
    requests = engine(num_blocks=4).generate([PROMPT, [], [1] * 30, [99], PROMPT[:3]], max_tokens=4)
    assert [request.finish_reason for request in requests] == ["length", "error", "error", "error", "length"]
    assert ["empty" in requests[1].error, "never fit" in requests[2].error, "99" in requests[3].error] == [True] * 3
    assert requests[0].error is None and requests[4].output == alone(PROMPT[:3], max_tokens=4)


def test_a_request_is_added_once():
    served = engine()
    request = served.generate([PROMPT], max_tokens=2)[0]
    refused = served.generate([[]])[0]
    for again in (request, refused):
        with pytest.raises(ValueError, match="has been added before, or has ended"):
            served.scheduler.add(again)
    with pytest.raises(ValueError, match="not been"):
        next(served.stream(Request(PROMPT)))


@pytest.mark.parametrize("limits, told", [
    ({"num_blocks": 0}, "num_blocks=0"), ({"block_size": 0}, "block_size=0"), ({"max_num_seqs": 0}, "max_num_seqs=0"),
    ({"max_num_batched_tokens": 0}, "max_num_batched_tokens=0"), ({"max_num_batched_tokens": 1.5}, "max_num_batched_tokens=1.5"),
])
def test_limits_below_one(limits, told):
    with pytest.raises(ValueError, match=told):
        engine(**limits)


def test_the_pool_refuses_what_would_corrupt_it():
    pool = BlockPool(3, 2)
    held = pool.allocate(2)
    for n in (2, -1):
        with pytest.raises(ValueError, match=f"{n} blocks wanted, 1 are free"):
            pool.allocate(n)
    pool.release(held)
    with pytest.raises(ValueError, match="is released but nobody holds it"):
        pool.release(held)
    with pytest.raises(ValueError, match="only a full block of 2"):
        pool.content([1], None)
    assert pool.num_free == 3


def test_a_nan_ends_its_request_and_no_other():
    broken = build(CONFIG, std=0.3, seed=3)
    broken.embedding.weight[38] = math.nan  # a token that nobody draws here
    bad, long = [38, *PROMPT[:6]], [38, *PROMPT, *PROMPT]
    prompts = [PROMPT, bad, PROMPT[:3], long, PROMPT[::-1], PROMPT[:5]]
    for blocks, budget in ((64, 256), (64, 6), (12, 6), (8, 12)):
        served = engine(blocks, 4, broken, max_num_batched_tokens=budget)
        for _ in range(2):  # the second time in blocks that held NaN
            requests = served.generate(prompts, max_tokens=5)
            for request in requests:
                if 38 in request.prompt:
                    assert (request.finish_reason, request.output) == ("error", []) and "NaN" in request.error
                else:
                    assert request.output == alone(request.prompt, max_tokens=5)
        assert served.pool.num_in_use == 0 and served.scheduler.idle
