"""halfwave: neural operators in mixed precision, with bounds that hold.

>>> import halfwave as hw
>>> model = hw.FNO(n_modes=(16, 16), in_channels=1, out_channels=1, hidden_channels=32, precision="mixed")
>>> hw.set_precision(model, "full")
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from halfwave import models, numerics, precision, spectral
from halfwave.errors import InputError
from halfwave.models import FNO, GINO, SFNO, TFNO, UNet, set_precision
from halfwave.precision import Policy, Schedule
from halfwave.spectral import SpectralConv

if TYPE_CHECKING:
    from halfwave import (
        certificates,
        data,
        domains,
        interop,
        measure,
        optimizers,
        parallel,
        planner,
        recipes,
        theory,
        training,
    )
    from halfwave.certificates import auto_precision, certify, compress
    from halfwave.export import export
    from halfwave.measure import keep_freed_blocks
    from halfwave.optimizers import AdamW
    from halfwave.parallel import parallelize
    from halfwave.training import load, save, train

try:
    __version__ = version("halfwave")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "unknown"

# Imported when first used: the solvers, the trainer and their libraries take seconds that a model does not need.
_LATER = {
    "auto_precision": "halfwave.certificates",
    "AdamW": "halfwave.optimizers",
    "certificates": "halfwave.certificates",
    "certify": "halfwave.certificates",
    "compress": "halfwave.certificates",
    "data": "halfwave.data",
    "domains": "halfwave.domains",
    "export": "halfwave.export",
    "interop": "halfwave.interop",
    "keep_freed_blocks": "halfwave.measure",
    "measure": "halfwave.measure",
    "optimizers": "halfwave.optimizers",
    "parallel": "halfwave.parallel",
    "parallelize": "halfwave.parallel",
    "planner": "halfwave.planner",
    "recipes": "halfwave.recipes",
    "theory": "halfwave.theory",
    "training": "halfwave.training",
    "load": "halfwave.training",
    "save": "halfwave.training",
    "train": "halfwave.training",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'halfwave' has no attribute {name!r}")
    module = import_module(_LATER[name])
    return module if module.__name__ == f"halfwave.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    """What there is to use, imported or not yet."""
    return sorted((*__all__, "__doc__", "__name__", "__version__"))


__all__ = [
    "FNO",
    "GINO",
    "SFNO",
    "TFNO",
    "AdamW",
    "InputError",
    "Policy",
    "Schedule",
    "SpectralConv",
    "UNet",
    "auto_precision",
    "certificates",
    "certify",
    "compress",
    "data",
    "domains",
    "export",
    "interop",
    "keep_freed_blocks",
    "load",
    "measure",
    "models",
    "numerics",
    "optimizers",
    "parallel",
    "parallelize",
    "planner",
    "precision",
    "recipes",
    "save",
    "set_precision",
    "spectral",
    "theory",
    "train",
    "training",
]
