"""Whether a neuraloperator model computes what its classes say: known classes, unchanged, without hooks.

Weights and settings say nothing of code that somebody put into a model: a subclass's own `forward`, a hook, a replaced
layer, an option of a version that we have not seen. Each of these raises here, in one line, before anything is read.
Nothing of neuraloperator is imported: classes go by their qualified names.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from torch import nn

KNOWN_VERSION = "2.0"
FNO_CLASS = "neuralop.models.fno.FNO"
GINO_CLASS = "neuralop.models.gino.GINO"
FOURIER_CONV = "neuralop.layers.spectral_convolution.SpectralConv"
SPHERE_CONV = "neuralop.layers.spherical_convolution.SphericalConv"
GROUP_NORM = "torch.nn.modules.normalization.GroupNorm"
INSTANCE_NORM = "neuralop.layers.normalization_layers.InstanceNorm"
IDENTITY = "torch.nn.modules.linear.Identity"
SOFT_GATING = "neuralop.layers.skip_connections.SoftGating"
LINEAR_SKIP = "neuralop.layers.skip_connections.Flattened1dConv"
GRIDS = ("neuralop.layers.embeddings.GridEmbeddingND", "neuralop.layers.embeddings.GridEmbedding2D")

# Classes of theirs, and of torch's, whose computation ours repeats or refuses by its settings.
_LAYERS = (
    FNO_CLASS,
    GINO_CLASS,
    FOURIER_CONV,
    SPHERE_CONV,
    *GRIDS,
    SOFT_GATING,
    LINEAR_SKIP,
    INSTANCE_NORM,
    "neuralop.layers.normalization_layers.BatchNorm",
    "neuralop.layers.normalization_layers.AdaIN",
    "neuralop.layers.embeddings.SinusoidalEmbedding",
    "neuralop.layers.spherical_convolution.SHT",
    "neuralop.layers.fno_block.FNOBlocks",
    "neuralop.layers.channel_mlp.ChannelMLP",
    "neuralop.layers.channel_mlp.LinearChannelMLP",
    "neuralop.layers.padding.DomainPadding",
    "neuralop.layers.complex.ComplexValued",
    "neuralop.layers.gno_block.GNOBlock",
    "neuralop.layers.integral_transform.IntegralTransform",
    "neuralop.layers.neighbor_search.NeighborSearch",
)
_PARTS = (
    GROUP_NORM,
    IDENTITY,
    "torch.nn.modules.container.ModuleList",
    "torch.nn.modules.container.ModuleDict",
    "torch.nn.modules.container.Sequential",
    "torch.nn.modules.conv.Conv1d",
    "torch.nn.modules.linear.Linear",
    "torch.nn.modules.dropout.Dropout",
    *(f"torch.nn.modules.batchnorm.BatchNorm{n}d" for n in (1, 2, 3)),
)
# Torch's layers of nonlinearities are judged by `nonlinearity_name`.
_PACKAGES = ("tltorch.", "torch_harmonics.", "torch.nn.modules.activation.")

FNO_OPTIONS = (
    "n_modes",
    "in_channels",
    "out_channels",
    "hidden_channels",
    "n_layers",
    "lifting_channel_ratio",
    "projection_channel_ratio",
    "positional_embedding",
    "non_linearity",
    "norm",
    "complex_data",
    "use_channel_mlp",
    "channel_mlp_dropout",
    "channel_mlp_expansion",
    "channel_mlp_skip",
    "fno_skip",
    "resolution_scaling_factor",
    "domain_padding",
    "fno_block_precision",
    "stabilizer",
    "max_n_modes",
    "factorization",
    "rank",
    "fixed_rank_modes",
    "implementation",
    "decomposition_kwargs",
    "separable",
    "preactivation",
    "conv_module",
)
"""Options of the FNO of 2.0, in the order in which they may be given by position."""
# Those of its parts that are read elsewhere, or that no output depends on once there are weights.
_OTHER_OPTIONS = (
    "self",
    "ada_in_features",
    "bias",
    "init_std",
    "fft_norm",
    "device",
    "dtype",
    "joint_factorization",
    "sht_norm",
    "sht_grids",
)
_CONVOLVING = (FNO_CLASS, FOURIER_CONV, SPHERE_CONV, "neuralop.layers.fno_block.FNOBlocks")


def qualified_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def ancestor(module: nn.Module, *names: str) -> type | None:
    """The class with one of these qualified names that `module` is of, or None."""
    return next((cls for cls in type(module).__mro__ if qualified_name(cls) in names), None)


def check_modules(model: nn.Module) -> None:
    """ValueError, one line, for a model with code, layers or options that ours would not repeat."""
    _check_version()
    for name, module in model.named_modules():
        problem = _problem(module)
        if problem:
            raise ValueError(f"{name or 'the model'} ({type(module).__name__}) cannot be carried over: it {problem}")


def _check_version() -> None:
    version = str(getattr(sys.modules.get("neuralop"), "__version__", KNOWN_VERSION))
    if not f"{version}.".startswith(f"{KNOWN_VERSION}."):
        raise ValueError(
            f"a model of neuraloperator {version} cannot be carried over: known is {KNOWN_VERSION}, and others treat "
            "some grids differently (a state dict can be read)"
        )


def _problem(module: nn.Module) -> str | None:
    if has_hooks(module):
        return "has hooks, which would be lost: remove them first"
    known = ancestor(module, *_LAYERS)
    if "forward" in vars(module):
        return "has a forward of its own, which ours would not run"
    if known is None:
        name = qualified_name(type(module))
        return None if name in _PARTS or name.startswith(_PACKAGES) else "is of a class that halfwave does not know"
    own = _own_code(module, known)
    if own:
        return f"has a {own} of its own, which ours would not run"
    option = _unknown_option(module, known) if qualified_name(known) in _CONVOLVING else None
    return f"has the option {option}, which halfwave does not know" if option else None


def has_hooks(module: nn.Module) -> bool:
    forward = module._forward_hooks or module._forward_pre_hooks
    return bool(forward or module._backward_hooks or module._backward_pre_hooks)


def _own_code(module: nn.Module, known: type) -> str | None:
    """A method or property that is not `known`'s, in the class or in the object itself."""
    cls = type(module)
    methods = [name for name, value in vars(known).items() if callable(value) or isinstance(value, property)]
    for name in ("forward", "__call__", "__getattr__", *methods):
        changed = inspect.getattr_static(cls, name) is not inspect.getattr_static(known, name)
        if changed and name not in ("__init__", "__new__", "extra_repr", "__repr__"):
            return name
    return next((name for name in vars(module) if callable(inspect.getattr_static(cls, name, None))), None)


def _unknown_option(module: Any, known: Any) -> str | None:
    """An option of a later version's constructor, unless its value switches it off."""
    new = [name for name in inspect.signature(known.__init__).parameters if name not in (*FNO_OPTIONS, *_OTHER_OPTIONS)]
    return next((name for name in new if getattr(module, name, True)), None)
