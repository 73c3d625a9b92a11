"""Clocks: what counts, what does not, and that there is one place which looks at the time of a call."""

import statistics
from pathlib import Path

import pytest

import halfwave
from halfwave.measure import best_seconds, clocks, median_seconds, seconds_of, take_turns

ROOT = Path(halfwave.__file__).parent


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets forward: `spend(s)` is a call that takes the next of the seconds."""
    now = [0.0]
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: now[0])

    def spend(*seconds):
        left = list(seconds)

        def call():
            now[0] += left.pop(0)

        return call

    return spend


def test_one_call(clock):
    assert seconds_of(clock(0.25)) == 0.25


def test_the_median_is_of_calls_after_the_warm_up(clock):
    assert median_seconds(clock(50, 60, 1, 9, 2), calls=3, warm_up=2) == 2


def test_the_best_is_of_calls_after_the_warm_up(clock):
    assert best_seconds(clock(1, 7, 5, 6), calls=3, warm_up=1) == 5


def test_the_best_goes_on_until_enough_was_seen(clock):
    call = clock(4, 3, 2, 1)
    assert best_seconds(call, calls=1, at_least=8) == 2
    assert seconds_of(call) == 1  # and no longer


def test_the_best_of_calls_without_a_duration_ends(clock):
    assert best_seconds(clock(*[0.0] * 100), calls=3, at_least=1) == 0


def test_turns_are_taken_and_each_has_its_own_median(clock):
    order, times = [], {"a": clock(1, 5, 3), "b": clock(20, 10, 60)}

    def turn(name):
        return lambda: (order.append(name), times[name]())

    assert take_turns({name: turn(name) for name in times}, 3) == {"a": statistics.median((1, 5, 3)), "b": 20}
    assert order == ["a", "b"] * 3


def test_nobody_else_times_calls():
    """The loop alone has a clock of its own: it times steps between which it waits for data."""
    found = {str(p.relative_to(ROOT)) for p in ROOT.rglob("*.py") if "perf_counter" in p.read_text(encoding="utf-8")}
    assert found == {"measure/clocks.py", "training/loop.py"}
