"""Datasets: random fields, one file per problem, the store, and readers of published formats."""

from collections.abc import Mapping
from types import MappingProxyType

from halfwave.data.darcy import Darcy
from halfwave.data.dataset import Dataset, Split, open_dataset
from halfwave.data.generate import generate
from halfwave.data.generator import Generator
from halfwave.data.live import LiveDataset, live_dataset
from halfwave.data.navier_stokes import NavierStokes
from halfwave.data.normalizer import Normalizer, fit_normalizers
from halfwave.data.random_fields import GaussianField
from halfwave.data.shallow_water import ShallowWater

GENERATORS: Mapping[str, type] = MappingProxyType({g.name: g for g in (Darcy, NavierStokes, ShallowWater)})
"""Every generator by its name on the command line."""

__all__ = [
    "GENERATORS",
    "Darcy",
    "Dataset",
    "GaussianField",
    "Generator",
    "LiveDataset",
    "NavierStokes",
    "Normalizer",
    "ShallowWater",
    "Split",
    "fit_normalizers",
    "generate",
    "live_dataset",
    "open_dataset",
]
