"""Transforms as matrix products, spectra as real pairs, and the spectral convolution."""

from halfwave.spectral.build import WeightSettings
from halfwave.spectral.conv import SpectralConv
from halfwave.spectral.cost import TransformCost, estimate_transform
from halfwave.spectral.execute import execute
from halfwave.spectral.factorizations import CPWeight, DepthwiseWeight, TTWeight, TuckerWeight
from halfwave.spectral.fourier import FourierTransform
from halfwave.spectral.plan import ContractionPlan, plan_contraction
from halfwave.spectral.spherical import SphericalTransform
from halfwave.spectral.weights import DenseWeight, SpectralWeight, holds_pairs, mark_pairs

__all__ = [
    "CPWeight",
    "ContractionPlan",
    "DenseWeight",
    "DepthwiseWeight",
    "FourierTransform",
    "SpectralConv",
    "SpectralWeight",
    "SphericalTransform",
    "TTWeight",
    "TransformCost",
    "TuckerWeight",
    "WeightSettings",
    "estimate_transform",
    "execute",
    "holds_pairs",
    "mark_pairs",
    "plan_contraction",
]
