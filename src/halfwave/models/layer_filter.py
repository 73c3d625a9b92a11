"""Single layers by their names: which ones a filter chooses, and a policy that says what each of them has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from torch import nn

from halfwave.errors import nearest
from halfwave.precision import Policy, PolicyModule

LayerFilter = str | Sequence[str] | Callable[[str, nn.Module], bool]
"""A name with wildcards (``"blocks.*.conv"``), several, or a function of a layer's name and module.

A name stands for all layers under it; a function is asked about each layer that has a policy.
"""
_LISTED = 6


def chosen_by(filter: LayerFilter, layers: Mapping[PolicyModule, str], model: str) -> list[PolicyModule]:
    """The layers that a filter chooses; ValueError with the names that there are where a name chooses none."""
    if callable(filter):
        found = [layer for layer, name in layers.items() if filter(name, layer)]
        return found or _refuse("the filter", "", layers, model)
    patterns = [filter] if isinstance(filter, str) else list(filter)
    for pattern in patterns:
        if not any(_lies_under(name, pattern) for name in layers.values()):
            _refuse(f"filter {pattern!r}", pattern, layers, model)
    return [layer for layer, name in layers.items() if any(_lies_under(name, pattern) for pattern in patterns)]


def gathered(base: Policy, own: Mapping[str, Policy]) -> Policy:
    """The policy from which every layer gets its `own` again; `base` holds where they do not differ from it."""
    plain = replace(base, layers=())
    kept: dict[str, Policy] = {}
    # A name before all that lies under it, as the longest one counts.
    for name in sorted(own, key=len):
        if not _same(replace(plain, layers=tuple(kept.items())).of(name), own[name]):
            kept[name] = own[name]
    return replace(plain, layers=tuple(kept.items()), name="custom") if kept else plain


def _same(one: Policy, other: Policy) -> bool:
    return replace(one, name="") == replace(other, name="")


def _lies_under(name: str, pattern: str) -> bool:
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[: i + 1]), pattern) for i in range(len(parts)))


def _refuse(what: str, pattern: str, layers: Mapping[PolicyModule, str], model: str) -> list[PolicyModule]:
    names = list(layers.values())
    above = dict.fromkeys(part for name in names for part in (name, name.rpartition(".")[0]) if part)
    listed = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
    raise ValueError(f"{what} chooses no layer of {model}{nearest(pattern, above)}: its layers are {listed}")
