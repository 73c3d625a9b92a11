"""Writes the table of arguments in docs/how-to/from-neuraloperator.md from the signatures of both libraries.

    python docs/neuralop_arguments.py            # writes the tables between their markers
    python docs/neuralop_arguments.py --check    # exits with 1 where the page is not what the signatures say

An argument of theirs that ours does not have, or has with another default, needs a line in NOTES: without one, or with
one that is no longer needed, nothing is written.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent / "how-to" / "from-neuraloperator.md"
BEGIN, END = "<!-- arguments: written by docs/neuralop_arguments.py -->", "<!-- end of the arguments -->"
EMPTY = inspect.Parameter.empty

_PRECISION = '`precision=`; their `"half"` is `half` here, their `"mixed"` is `Policy.named("FHH", "fp16")`'
_STABILIZER = "`precision=hw.Policy.named(..., stabilizer=...)`: it belongs to the policy; carried over"
_RANKS = "ranks are given as integers in `rank`; carried over"
_DECOMPOSITION = "none: it passes options to tltorch, which is not used here"
_MODULE = "`hw.SpectralConv(transform=...)`; another class is refused"
NOTES: dict[str, dict[str, str]] = {
    "FNO": {
        "fno_block_precision": _PRECISION,
        "stabilizer": _STABILIZER,
        "fixed_rank_modes": _RANKS,
        "decomposition_kwargs": _DECOMPOSITION,
        "conv_module": _MODULE,
        "max_n_modes": "the same name; counts the last axis as `n_modes` does, with both signs",
        "complex_data": "refused: give real and imaginary parts as channels",
    },
    "SFNO": {
        "domain_padding": "refused: a sphere has no edge",
        "fno_block_precision": _PRECISION,
        "stabilizer": _STABILIZER,
        "factorization": "the same; dense is called None",
        "fixed_rank_modes": _RANKS,
        "decomposition_kwargs": _DECOMPOSITION,
        "conv_module": "`sht_grids=` chooses the grid; another class is refused",
        "complex_data": "refused: give real and imaginary parts as channels",
    },
    "GINO": {
        "gno_channel_mlp_non_linearity": "gelu alone; another is refused",
        "gno_use_open3d": "none: neighbours by a KD-tree on a CPU, in chunks elsewhere",
        "gno_use_torch_scatter": "none: sums over neighbours need no extension",
        "fno_resolution_scaling_factor": "refused",
        "fno_block_precision": _PRECISION,
        "fno_use_channel_mlp": "`fno_channel_mlp_expansion=None` leaves the MLPs out",
        "fno_channel_mlp_dropout": "refused unless 0",
        "fno_non_linearity": "gelu alone; another is refused",
        "fno_stabilizer": _STABILIZER,
        "fno_norm": "refused unless None",
        "fno_ada_in_features": "refused: it needs `fno_norm`",
        "fno_ada_in_dim": "refused: it needs `fno_norm`",
        "fno_preactivation": "refused unless False",
        "fno_fixed_rank_modes": _RANKS,
        "fno_decomposition_kwargs": _DECOMPOSITION,
        "fno_conv_module": _MODULE,
        "in_gno_channel_mlp_hidden_layers": "the same, as a tuple",
        "out_gno_channel_mlp_hidden_layers": "the same, as a tuple",
    },
    "SpectralConv": {
        "complex_data": "none: real fields",
        "resolution_scaling_factor": "`conv(x, output_shape=...)`",
        "fno_block_precision": _PRECISION,
        "rank": "1.0: all of the dense parameters unless you say less",
        "implementation": "factors are contracted as they are",
        "fixed_rank_modes": _RANKS,
        "decomposition_kwargs": _DECOMPOSITION,
        "init_std": "none: the scale of neuraloperator's `auto`",
        "fft_norm": '`"forward"`, always: 1/N is folded into the matrices, so that nothing overflows',
        "device": "`.to(device)`",
    },
}
"""What becomes of an argument of theirs that ours does not have by that name and default."""


def tables() -> str:
    """One table for each class, in the order of their signature, and what ours has beside it."""
    from neuralop.layers.spectral_convolution import SpectralConv
    from neuralop.models import FNO, GINO, SFNO

    import halfwave as hw

    pairs = ((FNO, hw.FNO), (SFNO, hw.SFNO), (GINO, hw.GINO), (SpectralConv, hw.SpectralConv))
    return "\n\n".join(table(theirs, ours) for theirs, ours in pairs)


def table(theirs: type, ours: type) -> str:
    a, b = _arguments(theirs), _arguments(ours)
    notes = NOTES[theirs.__name__]
    stray = set(notes) - set(a)
    if stray:
        raise SystemExit(f"neuraloperator's {theirs.__name__} has no argument {sorted(stray)[0]}: take its note out")
    rows = [_row(theirs.__name__, name, a[name], b.get(name), notes.get(name)) for name in a]
    lines = [f"### {theirs.__name__}", "", "| neuraloperator | default | here |", "| --- | --- | --- |", *rows]
    more = ", ".join(f"`{name}={_text(p)}`" for name, p in b.items() if name not in a)
    return "\n".join([*lines, "", f"Here besides: {more}."])


def _arguments(cls: type) -> dict[str, Any]:
    found = inspect.signature(cls.__init__).parameters.items()  # type: ignore[misc]
    return {name: p for name, p in found if name != "self" and p.kind is not p.VAR_KEYWORD}


def _row(cls: str, name: str, theirs: Any, ours: Any, note: str | None) -> str:
    same = ours is not None and _text(theirs) == _text(ours)
    if not same and note is None:
        raise SystemExit(f"{cls}({name}=...) is not the same here: say in NOTES of {Path(__file__).name} what is")
    return f"| `{name}` | {'required' if theirs.default is EMPTY else f'`{_text(theirs)}`'} | {note or 'the same'} |"


def _text(parameter: Any) -> str:
    """A default in one way for both: functions and classes by name, 0 and 0.0 alike."""
    value = parameter.default
    if value is EMPTY:
        return "required"
    if callable(value):
        return repr(value.__name__) if not isinstance(value, type) else value.__name__
    return f"{value:g}" if isinstance(value, float | int) and not isinstance(value, bool) else repr(value)


def filled(page: str) -> str:
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv[1:]:
        if filled(page) != page:
            raise SystemExit("the table of arguments is not what the signatures say: run docs/neuralop_arguments.py")
        return
    PAGE.write_text(filled(page), encoding="utf-8")


if __name__ == "__main__":
    main()
