"""Checks of constructor arguments that several models share."""

from __future__ import annotations

_MOST = {"layers": 1024, "levels": 16}
"""What is repeated more often than anyone means takes for ever to build; a level has twice the channels of the last."""


def check_counts(**counts: int) -> None:
    """ValueError unless every value is a positive integer, and no number of layers or levels beyond all use."""
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}")
        most = next((most for end, most in _MOST.items() if name.endswith(end)), value)
        if value > most:
            raise ValueError(f"{name} must be at most {most}, got {value}")


def refuse_complex(complex_data: bool) -> None:
    """ValueError for complex data, which models here take as pairs of real channels."""
    if complex_data:
        raise ValueError("complex_data=True is not supported: give real and imaginary parts as channels of their own")
