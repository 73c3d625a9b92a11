"""Arguments of a model as its `config` records them: functions and modules by names and settings, JSON-able."""

from __future__ import annotations

from typing import Any

from halfwave.models.embeddings import GridEmbedding, SinusoidalEmbedding
from halfwave.models.nonlinearity import nonlinearity_name


def recorded(name: str, value: Any) -> Any:
    """The value of the argument `name`, such that the same model is built from it."""
    if isinstance(value, (tuple, list)):
        return [recorded("", part) for part in value]
    if isinstance(value, (GridEmbedding, SinusoidalEmbedding)):
        return value.settings()
    return nonlinearity_name(value) if name == "non_linearity" else value
