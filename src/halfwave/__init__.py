"""halfwave: neural operators in mixed precision, with bounds that hold.

>>> import halfwave as hw
>>> model = hw.FNO(n_modes=(16, 16), in_channels=1, out_channels=1, hidden_channels=32, precision="mixed")
>>> hw.set_precision(model, "full")
"""

from importlib.metadata import PackageNotFoundError, version

from halfwave import data, interop, models, numerics, precision, spectral, theory, training
from halfwave.models import FNO, TFNO, set_precision
from halfwave.precision import Policy, Schedule
from halfwave.spectral import SpectralConv
from halfwave.training import load, save

try:
    __version__ = version("halfwave")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "unknown"

__all__ = [
    "FNO",
    "TFNO",
    "Policy",
    "Schedule",
    "SpectralConv",
    "data",
    "interop",
    "load",
    "models",
    "numerics",
    "precision",
    "save",
    "set_precision",
    "spectral",
    "theory",
    "training",
]
