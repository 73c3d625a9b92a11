"""Datasets: random fields, one file per problem, the store, and readers of published formats."""

from halfwave.data.ahmed import Ahmed
from halfwave.data.car import Car
from halfwave.data.darcy import Darcy
from halfwave.data.dataset import Dataset, Split
from halfwave.data.generate import generate
from halfwave.data.generator import Generator, sample_shapes
from halfwave.data.live import LiveDataset, live_dataset
from halfwave.data.navier_stokes import NavierStokes
from halfwave.data.normalizer import Normalizer, fit_normalizers
from halfwave.data.opening import open_any, open_dataset, open_point_dataset
from halfwave.data.point_dataset import PointDataset, PointSample, PointSplit
from halfwave.data.random_fields import GaussianField
from halfwave.data.readers.common import ReadOptions
from halfwave.data.registry import GENERATORS, build_generator, register_generator
from halfwave.data.shallow_water import ShallowWater

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
    "build_generator",
    "fit_normalizers",
    "generate",
    "live_dataset",
    "open_any",
    "open_dataset",
    "open_point_dataset",
    "register_generator",
    "sample_shapes",
]
