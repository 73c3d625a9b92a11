"""Datasets: random fields, one file per problem, the store, and readers of published formats."""

from collections.abc import Mapping
from types import MappingProxyType

from halfwave.data.darcy import Darcy
from halfwave.data.dataset import Dataset, Split, open_dataset
from halfwave.data.generate import generate
from halfwave.data.generator import Generator
from halfwave.data.normalizer import Normalizer, fit_normalizers
from halfwave.data.random_fields import GaussianField

GENERATORS: Mapping[str, type] = MappingProxyType({Darcy.name: Darcy})
"""Every generator by its name on the command line."""

__all__ = [
    "GENERATORS",
    "Darcy",
    "Dataset",
    "GaussianField",
    "Generator",
    "Normalizer",
    "Split",
    "fit_normalizers",
    "generate",
    "open_dataset",
]
