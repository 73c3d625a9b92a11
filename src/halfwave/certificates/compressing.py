"""compress: a trained model in a small file, each weight in as few bits as its part in the answer allows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.certificates.answers import Inputs, as_inputs, check_inputs, parts, relative_errors
from halfwave.certificates.compression_text import describe
from halfwave.certificates.finite_sample import conformal_bound
from halfwave.certificates.observing import Versions, core_of, observe
from halfwave.certificates.weight_shells import WeightRows, mean_squares, predict_change, rows_of
from halfwave.errors import InputError
from halfwave.models import Compressed, GridOperator, NeuralOperator
from halfwave.numerics import WIDTHS, RowIntegers, pack_rows, rounding_errors

Packed = dict[str, RowIntegers]

SAMPLES = 8
"""The most samples that bits are chosen on; half of those given, so that the others are held out."""
_ROOM = 0.9
"""Of the error allowed, what the samples that bits are chosen on may have: others have a little more."""
_ROUNDS = 8
_RANDOM = 8  # fields, where there are no data


@dataclass(frozen=True)
class Shell:
    """Some rows of a parameter, stored alike.

    Attributes:
        parameter: its name.
        frequency: |k| of the modes; None where the shell is the whole parameter.
        bits: of each number.
        numbers: how many.
        error: predicted: what its rounding changes in the answer, relative.
        bound: guaranteed: the largest spectral norm of the change of a matrix in it, over the largest of all matrices
            of the parameter. By Parseval what the layer makes of a field's part in this shell changes by no more than
            this share of the most that it can make of a field of that size.
    """

    parameter: str
    frequency: int | None
    bits: int
    numbers: int
    error: float
    bound: float


def compress(model: nn.Module, x: Any = None, *, max_error: float, alpha: float = 0.1) -> nn.Module:
    """A copy of a trained model whose file is small, and whose answers differ by at most `max_error`.

    Bits are given shell by shell where they lower the error of the answer most for their bytes, from 4 up: by the
    sensitivities of the answer to each weight, and the rounding errors, which are known. The copy computes with what
    is stored, as ordinary fp32 parameters; `hw.save` writes the small file, `hw.load` reads it. Its `compression` says
    what it cost: print it.

    Args:
        model: any model of this library with fp32 weights, or a wrapper around one.
        x: inputs as `certify` takes them, those of a test split say. Bits are chosen on the first half of them, SAMPLES
            at most; the others are held out, and measured once. Without them smooth random fields of variance 1, as
            normalised data have, and the result says so.
        max_error: the largest relative L2 change of an answer, over the samples that bits are chosen on.
        alpha: of the statement on new inputs, for which 1/alpha - 1 held-out samples are needed.
    """
    if not 0 < max_error < math.inf:
        raise InputError(f"max_error must be a positive number, got {max_error}")
    copy = deepcopy(model).eval()
    core, inputs = _inside(copy, x)
    _check_weights(core)
    exact = Versions.of(core, next(parts(inputs)), core.policy).exact
    count = min(SAMPLES, (len(inputs) + 1) // 2)
    chosen, others = inputs[:count], inputs[count:]
    choice = _Choice(exact, chosen)
    packed = choice.within(_ROOM * max_error)
    record = {"alpha": alpha, "max_error": max_error, "on": "random fields" if x is None else "those given"}
    record |= _sizes(core, packed) | _errors(choice, packed, others, alpha) | {"shells": choice.shells(packed)}
    compressed = Compressed(packed, record, describe(record))
    compressed.fill(core)
    for holder in {core, copy}:
        holder.compression = compressed  # type: ignore[assignment]
    return copy


def _sizes(core: nn.Module, packed: Packed) -> dict[str, Any]:
    return {
        "model": type(core).__name__,
        "bytes": _bytes(packed),
        "fp32_bytes": sum(4 * p.numel() for p in core.parameters()),
    }


def _errors(choice: _Choice, packed: Packed, others: Inputs, alpha: float) -> dict[str, Any]:
    """Of the samples that bits were chosen on, and of the others, which alone say something of new ones."""
    held_out = choice.measured(packed, others).tolist() if len(others) else []
    bound = conformal_bound(held_out, alpha)
    return {
        "measured_error": choice.measured(packed, choice.x).tolist(),
        "predicted_error": choice.predicted(packed).tolist(),
        "held_out_error": held_out,
        "conformal": float(bound) if bound.finite else None,
    }


def _inside(model: nn.Module, x: Any) -> tuple[NeuralOperator, Inputs]:
    if x is not None:
        core, inner = core_of(model, x.detach().float() if isinstance(x, Tensor) else x)
        inputs = as_inputs(inner)
    else:
        core = next((m for m in model.modules() if isinstance(m, NeuralOperator)), model)
        inputs = _random_fields(core)
    if not isinstance(core, NeuralOperator):
        raise InputError(
            f"{type(model).__name__} is no model of this library: compress needs one, or a wrapper around it"
        )
    check_inputs(inputs)
    return core, inputs


def _random_fields(core: Any) -> Tensor:
    """Noise with the low half of its frequencies, variance 1."""
    if core.takes_points:
        raise InputError(f"a {type(core).__name__} needs samples to be compressed on: give x")
    spectral = isinstance(core, GridOperator)
    grid = tuple(max(16, 2 * modes) for modes in core.n_modes) if spectral else (32,) * core.n_dim
    noise = torch.randn(_RANDOM, core.in_channels, *grid, generator=torch.Generator().manual_seed(0))
    axes = tuple(range(2, noise.ndim))
    waves = torch.fft.fftn(noise, dim=axes)
    for axis in axes:
        k = torch.fft.fftfreq(grid[axis - 2], 1 / grid[axis - 2]).abs()
        shape = [-1 if d == axis else 1 for d in range(noise.ndim)]
        waves = waves * (k <= grid[axis - 2] / 4).reshape(shape)
    fields = torch.fft.ifftn(waves, dim=axes).real
    return (fields / fields.std()).to(next(core.parameters()).device)


def _check_weights(core: nn.Module) -> None:
    for name, parameter in core.named_parameters():
        if parameter.dtype is not torch.float32:
            raise InputError(f"{name} is {str(parameter.dtype).removeprefix('torch.')}: compress needs fp32 weights")
        if not bool(parameter.isfinite().all()):
            raise InputError(f"{name} holds inf or nan: there is nothing to compress")


class _Choice:
    """Bits of every shell for a budget, from the squares of the error that each width of each shell makes."""

    def __init__(self, exact: nn.Module, x: Inputs) -> None:
        self.exact, self.x, self.rows = exact, x, rows_of(exact)
        squares = mean_squares(exact, x)
        self.parameters = dict(exact.named_parameters())
        self.errors = {name: self._errors(name, rows, squares[name]) for name, rows in self.rows.items()}
        self.numbers = {name: _numbers(rows, self.parameters[name].numel()) for name, rows in self.rows.items()}

    def _errors(self, name: str, rows: WeightRows, squares: Tensor) -> Tensor:
        """(shells, widths): the expected square of the relative change of the answer."""
        parameter, weight = self.parameters[name], squares.reshape(rows.count, -1)
        found = []
        for width in WIDTHS:
            by_row = (weight * rounding_errors(parameter, rows.count, width).square()).sum(1).cpu()
            found.append(torch.zeros(int(rows.shells.max()) + 1, dtype=torch.float64).index_add(0, rows.shells, by_row))
        return torch.stack(found, dim=1)

    def within(self, limit: float) -> Packed:
        """The packed parameters of the cheapest choice whose measured error is within the limit in every sample."""
        budget, best = limit, self._packed({n: torch.full((rows.count,), 32) for n, rows in self.rows.items()})
        for _ in range(_ROUNDS):
            packed = self._packed(self._widths(budget))
            worst = float(self.measured(packed, self.x).max())
            if worst <= limit and _bytes(packed) < _bytes(best):
                best = packed
            if 0.95 * limit < worst <= limit:
                break
            # What was predicted and what was measured differ by a factor that hardly depends on the budget.
            budget *= 0.97 * limit / worst if worst > 0 else 2.0
        return best

    def _widths(self, budget: float) -> dict[str, Tensor]:
        """From the fewest bits on, always the step that lowers the error most for its bits, until it is low enough."""
        places = {name: torch.zeros(len(errors), dtype=torch.long) for name, errors in self.errors.items()}
        left = sum(float(errors[:, 0].sum()) for errors in self.errors.values())
        for step in self._steps():
            if left <= budget**2:
                break
            places[step.name][step.shell] = step.place
            left -= step.lowers
        widths = torch.tensor(WIDTHS)
        return {name: widths[places[name]][rows.shells] for name, rows in self.rows.items()}

    def _steps(self) -> list[_Step]:
        """From width to width of every shell along the lower hull of its errors, the most worthwhile first."""
        found = []
        for name, errors in self.errors.items():
            for shell, by_width in enumerate(errors.tolist()):
                numbers = int(self.numbers[name][shell])
                found += [
                    _Step(name, shell, place, lowers, lowers / (bits * numbers))
                    for place, lowers, bits in _hull(by_width)
                ]
        return sorted(found, key=lambda step: -step.worth)

    def _packed(self, widths: dict[str, Tensor]) -> Packed:
        return {name: pack_rows(self.parameters[name], widths[name]) for name in self.rows}

    def measured(self, packed: Packed, x: Inputs) -> Tensor:
        """The relative change (N,) of each answer."""
        trial = deepcopy(self.exact)
        Compressed(packed).fill(trial)
        pairs = ((part, observe(self.exact, part, []).output) for part in parts(x))
        return torch.cat([relative_errors(observe(trial, part, []).output, ref, part) for part, ref in pairs])

    def predicted(self, packed: Packed) -> Tensor:
        """The same, as the sensitivities have it."""
        changes = {n: rows.unpack().double() - self.parameters[n].detach().double().cpu() for n, rows in packed.items()}
        return predict_change(self.exact, self.x, changes)

    def shells(self, packed: Packed) -> list[dict[str, Any]]:
        """Every shell with its bound, JSON-able."""
        return [asdict(shell) for name, rows in self.rows.items() for shell in self._shells(rows, packed[name].widths)]

    def _shells(self, rows: WeightRows, widths: Tensor) -> Iterator[Shell]:
        parameter = self.parameters[rows.name]
        size = float(_row_norms(parameter.detach().double(), rows).max())
        changes = {bits: self._change_norms(parameter, rows, bits).cpu() for bits in set(widths.tolist())}
        for shell in sorted(set(rows.shells.tolist())):
            inside = rows.shells == shell
            bits = int(widths[inside][0])
            change = changes[bits][inside] if rows.by_mode else changes[bits]
            yield Shell(
                parameter=rows.name,
                frequency=shell if rows.by_mode else None,
                bits=bits,
                numbers=int(self.numbers[rows.name][shell]),
                error=math.sqrt(float(self.errors[rows.name][shell, WIDTHS.index(bits)])),
                bound=float(change.max()) / size if size > 0 else 0.0,
            )

    @staticmethod
    def _change_norms(parameter: Tensor, rows: WeightRows, bits: int) -> Tensor:
        return _row_norms(rounding_errors(parameter, rows.count, bits).reshape(parameter.shape), rows)


@dataclass(frozen=True)
class _Step:
    """A shell gets the width at `place`, which lowers the square of the error."""

    name: str
    shell: int
    place: int
    lowers: float
    worth: float


def _hull(errors: list[float]) -> Iterator[tuple[int, float, int]]:
    """(place, what it lowers, bits it adds) from the fewest bits on: each step is worth less than the one before.

    An error may grow with the bits, where few numbers happen to lie on the coarser grid: such widths are passed over.
    """
    at = 0
    while at < len(WIDTHS) - 1:
        steps = [(errors[at] - errors[k], WIDTHS[k] - WIDTHS[at], k) for k in range(at + 1, len(WIDTHS))]
        lowers, bits, place = max(steps, key=lambda step: step[0] / step[1])
        if lowers <= 0:
            return
        yield place, lowers, bits
        at = place


def _numbers(rows: WeightRows, total: int) -> Tensor:
    return torch.bincount(rows.shells) * (total // rows.count)


def _bytes(packed: Packed) -> int:
    return sum(rows.nbytes for rows in packed.values())


def _row_norms(tensor: Tensor, rows: WeightRows) -> Tensor:
    """Spectral norms: of the complex matrix of every mode, of the whole matrix elsewhere."""
    if not rows.by_mode:
        return torch.linalg.matrix_norm(tensor.reshape(rows.count, -1), ord=2).reshape(1)
    flat = tensor.reshape(rows.count, *rows.shape)
    pairs = torch.complex(*flat.unbind(-2))  # (K, C, O), or the diagonals (K, C)
    return torch.linalg.matrix_norm(pairs, ord=2) if pairs.ndim == 3 else pairs.abs().amax(1)
