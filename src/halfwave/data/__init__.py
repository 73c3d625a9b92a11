"""Datasets: random fields, one file per problem, the store, and readers of published formats."""

from collections.abc import Mapping
from types import MappingProxyType

from halfwave.data.ahmed import Ahmed
from halfwave.data.car import Car
from halfwave.data.darcy import Darcy
from halfwave.data.dataset import Dataset, Split
from halfwave.data.generate import generate
from halfwave.data.generator import Generator
from halfwave.data.live import LiveDataset, live_dataset
from halfwave.data.navier_stokes import NavierStokes
from halfwave.data.normalizer import Normalizer, fit_normalizers
from halfwave.data.opening import open_any, open_dataset, open_point_dataset
from halfwave.data.point_dataset import PointDataset, PointSample, PointSplit
from halfwave.data.random_fields import GaussianField
from halfwave.data.readers.common import ReadOptions
from halfwave.data.shallow_water import ShallowWater

GENERATORS: Mapping[str, type] = MappingProxyType({g.name: g for g in (Darcy, NavierStokes, ShallowWater, Car, Ahmed)})
"""Every generator by its name on the command line."""

__all__ = [
    "GENERATORS",
    "Ahmed",
    "Car",
    "Darcy",
    "Dataset",
    "GaussianField",
    "Generator",
    "LiveDataset",
    "NavierStokes",
    "Normalizer",
    "PointDataset",
    "PointSample",
    "PointSplit",
    "ReadOptions",
    "ShallowWater",
    "Split",
    "fit_normalizers",
    "generate",
    "live_dataset",
    "open_any",
    "open_dataset",
    "open_point_dataset",
]
