"""Random valid configurations of neuraloperator's FNO, TFNO and SFNO, over all of their options."""

import random
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from neuralop.layers.embeddings import GridEmbedding2D, GridEmbeddingND
from neuralop.layers.spectral_convolution import SpectralConv
from neuralop.layers.spherical_convolution import SphericalConv
from neuralop.models import FNO, SFNO, TFNO
from torch import nn
from torch.nn import functional as F

MODELS = {"FNO": FNO, "TFNO": TFNO, "SFNO": SFNO}


@dataclass(frozen=True)
class Drawn:
    """A configuration, what is changed after construction, and an input for it."""

    model: str
    options: dict[str, Any]
    grid: tuple[int, ...]
    call: dict[str, Any] = field(default_factory=dict)
    lowered: tuple[int, ...] | None = None
    hooked: bool = False

    def build(self):
        torch.manual_seed(0)
        peer = MODELS[self.model](**self.options)
        with torch.no_grad():  # not the neutral ones that norms and gates start with
            for name, parameter in peer.named_parameters():
                if "norm" in name or "skips" in name:
                    parameter.add_(0.3 * torch.randn_like(parameter))
        if self.lowered is not None:
            peer.n_modes = self.lowered
        if self.hooked:
            peer.fno_blocks.register_forward_hook(lambda module, inputs, out: 2 * out)
        return peer

    def input(self):
        dtype = torch.cfloat if self.options.get("complex_data") else torch.float
        generator = torch.Generator().manual_seed(1)
        return torch.randn(2, self.options["in_channels"], *self.grid, generator=generator, dtype=dtype)


def draw(seed):
    """The configuration of this seed; a few of them do not run in neuraloperator itself."""
    rng = random.Random(seed)
    model = rng.choice(["FNO", "FNO", "TFNO", "SFNO"])
    dim = 2 if model == "SFNO" else rng.choice([1, 2, 2, 3])
    modes, n_layers = tuple(rng.randint(2, 7 if dim < 3 else 4) for _ in range(dim)), rng.randint(1, 3)
    options = {
        "n_modes": modes,
        "in_channels": rng.randint(1, 3),
        "out_channels": rng.randint(1, 3),
        "hidden_channels": rng.choice([4, 5, 7]),
        "n_layers": n_layers,
        **_layers(rng),
        **_weights(rng, model, modes),
        **_grids(rng, model, dim, n_layers),
    }
    lowered = tuple(rng.randint(1, n) for n in modes) if rng.random() < 0.12 else None
    sizes = {1: (3, 24), 2: (4, 14), 3: (3, 8)}[dim]
    grid = tuple(rng.randint(*sizes) for _ in range(dim))
    return Drawn(model, options, grid, _call(rng, dim, n_layers), lowered, hooked=rng.random() < 0.02)


def _sometimes(rng, chance, **values):
    """Each of these options with this chance, by one of its values."""
    return {name: rng.choice(choice) for name, choice in values.items() if rng.random() < chance}


def _layers(rng):
    skips = ["linear", "identity", "soft-gating", "Linear", None]
    functions = [F.relu, F.silu, torch.tanh, torch.sigmoid, F.elu, F.leaky_relu, F.softplus, nn.GELU(), nn.ReLU()]
    usual = _sometimes(
        rng,
        0.4,
        lifting_channel_ratio=[0, 0.3, 1, 2],
        projection_channel_ratio=[0.5, 1, 1.7],
        non_linearity=functions,
        norm=["group_norm", "instance_norm"],
        use_channel_mlp=[False],
        channel_mlp_expansion=[0.25, 1, 1.5],
        channel_mlp_skip=skips,
        fno_skip=skips,
        stabilizer=["tanh", "other"],
        preactivation=[True],
    )
    return usual | _sometimes(
        rng,
        0.03,
        non_linearity=[torch.square, nn.GELU("tanh"), nn.PReLU(), nn.LeakyReLU(0.3), torch.sin],
        norm=["batch_norm", "ada_in"],
        channel_mlp_dropout=[0.3],
        fno_block_precision=["mixed", "half"],
        complex_data=[True],
    )


def _weights(rng, model, modes):
    more = tuple(n + rng.randint(0, 3) for n in modes)
    return _sometimes(
        rng,
        0.35,
        factorization=["cp", "tucker", "tt", "Tucker", "dense", None, "ComplexTucker", "ComplexDense"],
        rank=[0.3, 0.8, 3],
        implementation=["reconstructed"],
        fixed_rank_modes=[True],
        max_n_modes=[more],
    ) | _sometimes(rng, 0.1 if model == "SFNO" else 0.3, separable=[True], decomposition_kwargs=[{}])


def _grids(rng, model, dim, n_layers):
    boundaries = [[float(rng.randint(-2, 0)), float(rng.randint(1, 4))] for _ in range(dim)]
    embeddings = [None, GridEmbeddingND(1, dim, boundaries), *([GridEmbedding2D(1, boundaries)] if dim == 2 else [])]
    factors = [0.5, 1, 1.5, 2]
    by_layer = [rng.choice(factors) for _ in range(n_layers)]
    by_axis = [[rng.choice(factors) for _ in range(dim)] for _ in range(n_layers)]
    conv = SphericalConv if model == "SFNO" else SpectralConv
    other = {"sht_grids": "legendre-gauss"} if model == "SFNO" else {"fft_norm": "ortho"}
    usual = _sometimes(
        rng,
        0.3,
        positional_embedding=embeddings,
        resolution_scaling_factor=[1, 2, 0.5, by_layer, by_axis],
    )
    return (
        usual
        | _sometimes(rng, 0.05 if model == "SFNO" else 0.3, domain_padding=[0.2, [0.3] * dim, [0.5, 0.1, 0.25][:dim]])
        | _sometimes(rng, 0.08, conv_module=[conv, partial(conv, **other), partial(conv, bias=False)])
    )


def _call(rng, dim, n_layers):
    shapes = [tuple(rng.randint(4, 9) for _ in range(dim)) for _ in range(n_layers)]
    return _sometimes(rng, 0.15, output_shape=[shapes[-1], shapes, [None, *shapes[1:]]])
