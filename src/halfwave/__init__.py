"""halfwave: neural operators in mixed precision, with bounds that hold.

>>> import halfwave as hw
>>> model = hw.FNO(n_modes=(16, 16), in_channels=1, out_channels=1, hidden_channels=32, precision="mixed")
>>> hw.set_precision(model, "full")
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself takes longer to import than the rest of this file
if TYPE_CHECKING:
    from typing import Any

    from halfwave import (
        certificates,
        data,
        domains,
        interop,
        measure,
        models,
        numerics,
        optimizers,
        parallel,
        planner,
        precision,
        recipes,
        spectral,
        theory,
        training,
    )
    from halfwave.certificates import auto_precision, certify, compress
    from halfwave.errors import InputError
    from halfwave.export import export
    from halfwave.gate import train
    from halfwave.measure import keep_freed_blocks
    from halfwave.models import FNO, GINO, SFNO, TFNO, UNet, set_precision
    from halfwave.optimizers import AdamW
    from halfwave.parallel import parallelize
    from halfwave.precision import Policy, Schedule
    from halfwave.spectral import SpectralConv
    from halfwave.training import load, save

    __version__: str

# Imported when first used: torch, the solvers, the trainer and their libraries take seconds, in which the command line
# has to answer to an interrupt already, and of which a model needs a few.
_LATER = {
    "AdamW": "halfwave.optimizers",
    "FNO": "halfwave.models",
    "GINO": "halfwave.models",
    "InputError": "halfwave.errors",
    "Policy": "halfwave.precision",
    "SFNO": "halfwave.models",
    "Schedule": "halfwave.precision",
    "SpectralConv": "halfwave.spectral",
    "TFNO": "halfwave.models",
    "UNet": "halfwave.models",
    "auto_precision": "halfwave.certificates",
    "certificates": "halfwave.certificates",
    "certify": "halfwave.certificates",
    "compress": "halfwave.certificates",
    "data": "halfwave.data",
    "domains": "halfwave.domains",
    "export": "halfwave.export",
    "interop": "halfwave.interop",
    "keep_freed_blocks": "halfwave.measure",
    "load": "halfwave.training",
    "measure": "halfwave.measure",
    "models": "halfwave.models",
    "numerics": "halfwave.numerics",
    "optimizers": "halfwave.optimizers",
    "parallel": "halfwave.parallel",
    "parallelize": "halfwave.parallel",
    "planner": "halfwave.planner",
    "precision": "halfwave.precision",
    "recipes": "halfwave.recipes",
    "save": "halfwave.training",
    "set_precision": "halfwave.models",
    "spectral": "halfwave.spectral",
    "theory": "halfwave.theory",
    "train": "halfwave.gate",
    "training": "halfwave.training",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _LATER:
        raise AttributeError(f"module 'halfwave' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_LATER[name])
    return module if module.__name__ == f"halfwave.{name}" else getattr(module, name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("halfwave")
    except PackageNotFoundError:  # a source tree that is not installed
        return "unknown"


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
