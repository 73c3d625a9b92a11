"""Finite volumes for -div(a grad u) = f with zero Dirichlet boundary on the unit box, in 1, 2 and 3 dimensions."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from scipy import fft
from torch import Tensor

from halfwave.errors import InputError

# Below this many interior nodes a side a sine transform as a matrix product is faster than scipy's DST-I, whose FFT has
# length 2(n + 1), which may have a large prime factor: 254 = 2 x 127 for a 128-node grid.
_MATRIX_TRANSFORM_LIMIT = 200


def solve_elliptic(a: np.ndarray, f: np.ndarray, *, tolerance: float = 1e-10) -> np.ndarray:
    """Solve -div(a grad u) = f, u = 0 on the boundary.

    `a` (positive) and `f` are given on N^dim nodes that include the boundary, spacing h = 1/(N - 1); so is the result.
    Each node owns a cell; the coefficient of the face between two nodes is their harmonic mean, which keeps the flux
    continuous across a jump of `a`. Second order for smooth `a`.

    Conjugate gradients, preconditioned by the exact inverse of the constant-coefficient operator (a sine transform):
    the condition number is at most max a / min a whatever the grid, so Darcy's contrast of 4 takes some 20 iterations.
    Stops when the residual in the Euclidean norm is below `tolerance` relative to f.
    """
    _check(a, f)
    operator = _Operator(a)
    rhs = torch.from_numpy(np.ascontiguousarray(_interior(f), dtype=np.float64))
    solution = _conjugate_gradients(operator, rhs, tolerance, limit=_iteration_limit(a, tolerance))
    return np.pad(solution.numpy(), 1)


def _check(a: np.ndarray, f: np.ndarray) -> None:
    if a.shape != f.shape or a.ndim not in (1, 2, 3) or len(set(a.shape)) != 1 or a.shape[0] < 3:
        raise InputError(
            f"a is {a.shape} and f is {f.shape}; both must be one cubic grid of 1-3 axes, 3 nodes or more each"
        )
    if not (np.isfinite(a).all() and (a > 0).all()):
        raise InputError(f"the coefficient has a least value of {a.min()}; it must be positive and finite everywhere")


class _Operator:
    """A u = -div(a grad u) on interior nodes, without a matrix."""

    def __init__(self, a: np.ndarray) -> None:
        nodes = torch.from_numpy(np.ascontiguousarray(a, dtype=np.float64))
        cells = (a.shape[0] - 1) ** 2  # 1 / h^2
        self.faces = [_face_coefficients(nodes, axis) * cells for axis in range(a.ndim)]

    def apply(self, u: Tensor) -> Tensor:
        result = torch.zeros_like(u)
        for axis, face in enumerate(self.faces):
            # The zero boundary value stands on both sides of the interior nodes.
            edge = torch.zeros_like(u.narrow(axis, 0, 1))
            flux = torch.diff(u, dim=axis, prepend=edge, append=edge).mul_(face)
            result -= torch.diff(flux, dim=axis)
        return result


def _face_coefficients(nodes: Tensor, axis: int) -> Tensor:
    """Harmonic means of neighbours along `axis`; interior nodes only along the other axes."""
    size = nodes.shape[axis]
    for other in range(nodes.ndim):
        if other != axis:
            nodes = nodes.narrow(other, 1, size - 2)
    left, right = nodes.narrow(axis, 0, size - 1), nodes.narrow(axis, 1, size - 1)
    return 2 * left * right / (left + right)


def _iteration_limit(a: np.ndarray, tolerance: float) -> int:
    """Twice the iterations that the classical bound 2 ((sqrt k - 1)/(sqrt k + 1))^n asks for, and some for rounding."""
    root = math.sqrt(float(a.max() / a.min()))
    return 40 + math.ceil(root * math.log(2 * root * a.shape[0] / tolerance))


def _conjugate_gradients(operator: _Operator, rhs: Tensor, tolerance: float, limit: int) -> Tensor:
    u, r = torch.zeros_like(rhs), rhs.clone()
    target = tolerance * float(torch.linalg.vector_norm(rhs))
    if target == 0:
        return u
    z = _inverse_laplacian(r)
    p, rz = z.clone(), float((r * z).sum())
    for _ in range(limit):
        ap = operator.apply(p)
        step = rz / float((p * ap).sum())
        u.add_(p, alpha=step)
        r.sub_(ap, alpha=step)
        if float(torch.linalg.vector_norm(r)) <= target:
            return u
        z = _inverse_laplacian(r)
        rz, previous = float((r * z).sum()), rz
        p.mul_(rz / previous).add_(z)
    raise ArithmeticError(
        f"conjugate gradients did not reach {tolerance:g} in {limit} iterations on {tuple(rhs.shape)}"
    )


def _inverse_laplacian(r: Tensor) -> Tensor:
    """Solve -Lap_h z = r for the constant coefficient 1, in the sine basis, where it is diagonal."""
    transform = _sine_by_matrix if r.shape[0] <= _MATRIX_TRANSFORM_LIMIT else _sine_by_fft
    return transform(transform(r) * _inverse_eigenvalues(r.shape[0], r.ndim))


@lru_cache(maxsize=8)
def _inverse_eigenvalues(n: int, dim: int) -> Tensor:
    one = (2 * (n + 1) * torch.sin(math.pi / 2 * torch.arange(1, n + 1, dtype=torch.float64) / (n + 1))) ** 2
    total = torch.zeros((n,) * dim, dtype=torch.float64)
    for axis in range(dim):
        total += one.reshape([-1 if i == axis else 1 for i in range(dim)])
    return 1 / total


@lru_cache(maxsize=8)
def _sine_matrix(n: int) -> Tensor:
    """The orthogonal, symmetric DST-I: its own inverse."""
    k = torch.arange(1, n + 1, dtype=torch.float64)
    return math.sqrt(2 / (n + 1)) * torch.sin(math.pi * (torch.outer(k, k) % (2 * (n + 1))) / (n + 1))


def _sine_by_matrix(x: Tensor) -> Tensor:
    n, shape = x.shape[0], x.shape
    for _ in range(x.ndim):
        # Transforms the first axis and moves it to the end, so that x.ndim rounds transform all and restore the order.
        x = (x.reshape(n, -1).T @ _sine_matrix(n)).reshape(shape)
    return x


def _sine_by_fft(x: Tensor) -> Tensor:
    return torch.from_numpy(fft.dstn(x.numpy(), type=1, norm="ortho"))


def _interior(nodes: np.ndarray) -> np.ndarray:
    return nodes[(slice(1, -1),) * nodes.ndim]
