"""The `config` of a model whose arguments may be functions and modules: recorded as names and settings, JSON-able."""

from __future__ import annotations

from typing import Any

from halfwave.models.embeddings import GridEmbedding, SinusoidalEmbedding
from halfwave.models.nonlinearity import nonlinearity_name


class RecordedConfig:
    """In the place of a model's attribute `config`: what is assigned to it becomes JSON-able."""

    def __get__(self, model: Any, owner: type) -> Any:
        if model is None:
            return self
        try:
            return model.__dict__["config"]
        except KeyError:
            raise AttributeError("config") from None

    def __set__(self, model: Any, arguments: dict[str, Any]) -> None:
        model.__dict__["config"] = {name: _recorded(name, value) for name, value in arguments.items()}


def _recorded(name: str, value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_recorded("", part) for part in value]
    if isinstance(value, (GridEmbedding, SinusoidalEmbedding)):
        return value.settings()
    return nonlinearity_name(value) if name == "non_linearity" else value
