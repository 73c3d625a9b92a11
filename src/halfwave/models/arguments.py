"""Checks of constructor arguments that several models share."""

from __future__ import annotations


def check_counts(**counts: int) -> None:
    """ValueError unless every value is a positive integer."""
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}")
