"""Transforms as matrix products, spectra as real pairs, and the spectral convolution."""

from halfwave.spectral.conv import SpectralConv
from halfwave.spectral.fourier import FourierTransform
from halfwave.spectral.spherical import SphericalTransform
from halfwave.spectral.weights import DenseWeight, SpectralWeight

__all__ = ["DenseWeight", "FourierTransform", "SpectralConv", "SpectralWeight", "SphericalTransform"]
