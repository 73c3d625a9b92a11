"""Point clouds in training: batches of them, their encoder, and splits of them."""

from halfwave.training.clouds.encoder import CloudEncoder, find_features, fit_clouds, latent_channels
from halfwave.training.clouds.packed import Clouds, Inputs, Pressures, Targets
from halfwave.training.clouds.samples import CloudSamples

__all__ = [
    "CloudEncoder",
    "CloudSamples",
    "Clouds",
    "Inputs",
    "Pressures",
    "Targets",
    "find_features",
    "fit_clouds",
    "latent_channels",
]
