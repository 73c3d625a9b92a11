"""What a compression cost, in words: bytes, the error of the answer, and the bits of each parameter's shells."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from itertools import groupby
from typing import Any

_WIDTH = 80


def describe(record: Mapping[str, Any]) -> str:
    """At 80 columns."""
    measured, held_out = record["measured_error"], record["held_out_error"]
    size, full = record["bytes"], record["fp32_bytes"]
    lines = [
        f"compressed {record['model']}: {_size(size)} of {_size(full)} in fp32, {size / full:.2f} of it",
        f"answers change by {max(measured):.2e} at most ({record['max_error']:.1e} allowed; {len(measured)} samples, "
        f"{record['on']}),",
        f"  predicted {_rms(record['predicted_error']):.2e}"
        + (f"; of {len(held_out)} held out {max(held_out):.2e}" if held_out else "")
        + _new_inputs(record),
        "bits by frequency |k|, and the guaranteed change of a layer's largest matrix:",
    ]
    for name, shells in groupby(record["shells"], key=lambda shell: shell["parameter"]):
        found = list(shells)
        if found[0]["frequency"] is not None:
            lines += textwrap.wrap(f"  {name}: {_bands(found)}", _WIDTH, subsequent_indent="    ")
    plain = [shell for shell in record["shells"] if shell["frequency"] is None]
    if plain:
        bits = sorted({shell["bits"] for shell in plain})
        numbers = sum(shell["numbers"] for shell in plain)
        lines.append(f"  {len(plain)} other parameters ({numbers} numbers): {', '.join(map(str, bits))} bits")
    return "\n".join(lines)


def _bands(shells: list[dict[str, Any]]) -> str:
    texts = []
    for bits, group in groupby(shells, key=lambda shell: shell["bits"]):
        band = list(group)
        first, last = band[0]["frequency"], band[-1]["frequency"]
        bound = max(shell["bound"] for shell in band)
        texts.append(f"{first}{'' if first == last else f'-{last}'} in {bits} ({bound:.0e})")
    return ", ".join(texts)


def _new_inputs(record: Mapping[str, Any]) -> str:
    if record["conformal"] is None:
        return ""
    return f",\n  so {100 * (1 - record['alpha']):.4g} of 100 new inputs stay below {record['conformal']:.2e}"


def _rms(values: list[float]) -> float:
    return float((sum(value**2 for value in values) / len(values)) ** 0.5)


def _size(count: int) -> str:
    return f"{count / 1e6:.2f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
