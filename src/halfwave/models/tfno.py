"""TFNO: the FNO with factorized spectral weights, a fraction of the parameters."""

from __future__ import annotations

from typing import Any

from halfwave.models.fno import FNO
from halfwave.spectral import Rank


class TFNO(FNO):
    """The tensorized FNO with neuraloperator's defaults: a Tucker factorization with a tenth of the parameters.

    Takes the arguments of `FNO`; only the defaults of `factorization` and `rank` differ.
    """

    def __init__(
        self,
        n_modes: int | tuple[int, ...],
        in_channels: int,
        out_channels: int,
        hidden_channels: int,
        n_layers: int = 4,
        *,
        factorization: str | None = "tucker",
        rank: Rank = 0.1,
        **options: Any,
    ) -> None:
        super().__init__(
            n_modes,
            in_channels,
            out_channels,
            hidden_channels,
            n_layers,
            factorization=factorization,
            rank=rank,
            **options,
        )
