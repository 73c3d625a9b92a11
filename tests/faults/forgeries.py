"""Values that a hostile writer puts into JSON, and a seeded way to put them anywhere."""

from __future__ import annotations

import copy
import random
from typing import Any

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3, 10**3, 10**9, 10**18, 2**64, 10**30, -(10**9), 0.5, -0.0, 1e9, 1e308, float("inf"),
    float("nan"), "", "x", "fp16", "\x1b[2J", "a" * 5000, "../../etc/passwd", [], [0], [10**9] * 3, ["x", None], {},
    {"x": 1}, {"": None}, [[[[[]]]]],
)  # fmt: skip


def forged(value: Any, rng: random.Random) -> Any:
    """A copy in which one to three places have another value, are gone or are there twice."""
    made = copy.deepcopy(value)
    for _ in range(rng.randint(1, 3)):
        holder, key = rng.choice(_places(made))
        _change(holder, key, rng)
    return made


def _change(holder: Any, key: Any, rng: random.Random) -> None:
    kind = rng.random()
    if kind < 0.15:
        del holder[key]
    elif kind < 0.25:
        extra = copy.deepcopy(holder[key])
        holder.append(extra) if isinstance(holder, list) else holder.update({f"{key}x": extra})
    else:
        holder[key] = copy.deepcopy(rng.choice(HOSTILE))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    found: list[tuple[Any, Any]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        found.append((value, key))
        found += _places(part)
    return found or [({"": None}, "")]
