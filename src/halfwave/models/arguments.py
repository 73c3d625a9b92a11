"""Checks of constructor arguments that several models share."""

from __future__ import annotations


def check_counts(**counts: int) -> None:
    """ValueError unless every value is a positive integer."""
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}")


def refuse_complex(complex_data: bool) -> None:
    """ValueError for complex data, which models here take as pairs of real channels."""
    if complex_data:
        raise ValueError("complex_data=True is not supported: give real and imaginary parts as channels of their own")
