"""The one cache: within its bytes, the least recently used goes first, and what it holds can be trained with."""

import copy
import pickle

import torch

from halfwave.numerics import ByteCache


def _bytes(n):
    return torch.zeros(n, dtype=torch.uint8)


def test_what_was_not_used_for_longest_goes_first():
    cache, built = ByteCache(10), []

    def build(n):
        built.append(n)
        return _bytes(n)

    for n in (3, 4, 3, 5, 3, 4):  # 4 had to go for 5, then 5 for 4
        assert cache.get(n, build).nbytes == n
        assert cache.held <= cache.limit
    assert built == [3, 4, 5, 4]
    assert (len(cache), cache.held) == (2, 7)


def test_what_is_too_large_is_not_kept_and_drives_nothing_out():
    cache = ByteCache(10)
    cache.get(4, _bytes)
    assert cache.get(11, _bytes).nbytes == 11
    assert (len(cache), cache.held) == (1, 4)


def test_the_latest_stay_whatever_their_size():
    cache = ByteCache(10, at_least=1)
    large = cache.get(11, _bytes)
    assert cache.get(11, _bytes) is large
    cache.get(3, _bytes)
    assert (len(cache), cache.held) == (1, 3)


def test_a_value_first_asked_for_in_inference_mode_serves_training():
    cache, x = ByteCache(100), torch.ones(2, requires_grad=True)
    with torch.inference_mode():
        cache.get("w", lambda _: torch.full((2,), 3.0))
    (x * cache.get("w", lambda _: torch.zeros(2))).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_copy_and_a_pickled_one_start_empty():
    cache = ByteCache(10, at_least=2)
    cache.get(3, _bytes)
    for other in (copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):
        assert (other.limit, other.at_least, other.held, len(other)) == (10, 2, 0, 0)
