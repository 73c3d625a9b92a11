"""Model cards: what a shared model is, what it was trained on, how good and how precise it is."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from halfwave.files import written_aside
from halfwave.models import NeuralOperator
from halfwave.training import Operator

FACTS = ("data", "error", "precision", "certificate")
_UNKNOWN = "not recorded"


def write_card(path: Path, model: nn.Module, facts: dict[str, str]) -> None:
    """A card in Markdown, with the header that the hub reads; ValueError for a fact that a card does not have."""
    unknown = sorted(set(facts) - set(FACTS))
    if unknown:
        raise ValueError(f"a card has no {unknown[0]!r}: expected some of {', '.join(FACTS)}")
    with written_aside(path) as aside:
        aside.write_text(card_text(model, facts), encoding="utf-8")


def card_text(model: nn.Module, facts: dict[str, str]) -> str:
    bare = model.model if isinstance(model, Operator) else model
    kind = type(bare).__name__
    known = {"precision": str(bare.policy)} if isinstance(bare, NeuralOperator) else {}
    rows = [f"| {name} | {({**known, **facts}).get(name, _UNKNOWN)} |" for name in FACTS]
    parameters = sum(p.numel() for p in bare.parameters())
    return "\n".join([
        "---", "library_name: halfwave", "tags: [neural-operator, pde, mixed-precision]", "---", "",
        f"# {kind}, {parameters:,} parameters", "",
        "| | |", "| --- | --- |", *rows, "",
        "```python", "import halfwave as hw", "", f'operator = hw.{kind}.from_pretrained("this folder, or owner/name")',
        "y = operator(x)  # fields in, fields out", "```", "",
    ])  # fmt: skip
