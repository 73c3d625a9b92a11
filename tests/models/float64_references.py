"""The models written again in float64, with torch.fft, tables of torch-harmonics and plain sums: what `double()` is.

Of ours only the parameters are read.
"""

import math

import torch
from torch import nn
from torch_harmonics.legendre import legpoly
from torch_harmonics.quadrature import clenshaw_curtiss_weights

from halfwave.models.normalization import NormActivation

gelu = nn.functional.gelu


def _mix(weight, bias, v):
    out = torch.einsum("oc,bc...->bo...", weight.double(), v)
    return out if bias is None else out + _per_channel(bias, v)


def _per_channel(values, v):
    return values.double().view(-1, *[1] * (v.ndim - 2))


def mlp(layers, v):
    *inner, last = layers
    for fc in inner:
        v = gelu(_mix(fc.weight, fc.bias, v))
    return _mix(last.weight, last.bias, v)


def dense_weight(weight):
    """(C, O, *K), complex."""
    if hasattr(weight, "core"):
        pairs = (p.detach().double().movedim(-2, -1) for p in (weight.core, *weight.factors))
        core, *factors = (torch.view_as_complex(p.contiguous()) for p in pairs)
        return torch.einsum("pqst,cp,oq,ks,lt->cokl", core, *factors)
    pairs = weight.weight.detach().double().movedim((-3, -1, -2), (0, 1, -1))
    return torch.view_as_complex(pairs.contiguous())


def fourier_conv(conv, v):
    """On grids with more points than modes."""
    grid, modes = v.shape[2:], conv.transform.n_modes
    axes = tuple(range(2, v.ndim))
    spectrum = torch.fft.rfftn(v, dim=axes, norm="forward")
    kept = [torch.arange(-(n // 2), n - n // 2) % size for n, size in zip(modes[:-1], grid[:-1], strict=True)]
    kept = torch.meshgrid(*kept, torch.arange(modes[-1] // 2 + 1), indexing="ij")
    where = (slice(None), slice(None), *kept)
    out = spectrum.new_zeros((len(v), conv.out_channels, *spectrum.shape[2:]))
    out[where] = torch.einsum("bc...,co...->bo...", spectrum[where], dense_weight(conv.weight))
    return torch.fft.irfftn(out, s=grid, dim=axes, norm="forward") + _per_channel(conv.bias, v)


def spherical_conv(conv, v):
    """On equiangular grids."""
    latitudes, longitudes = v.shape[2:]
    degrees, orders = conv.transform.n_modes[0], conv.transform.n_modes[1] // 2
    theta = torch.linspace(0, math.pi, latitudes, dtype=torch.float64)
    table = legpoly(orders, degrees, theta.cos()) * math.sqrt(4 * math.pi)
    weights = clenshaw_curtiss_weights(latitudes, -1, 1)[1] / 2
    waves = torch.fft.rfft(v, norm="forward")[..., :orders]
    spectrum = torch.einsum("mlh,h,bchm->bclm", table + 0j, weights + 0j, waves)
    spectrum = torch.einsum("bclm,col->bolm", spectrum, dense_weight(conv.weight))
    waves = torch.einsum("mlh,bolm->bohm", table + 0j, spectrum)
    return torch.fft.irfft(waves, n=longitudes, norm="forward") + _per_channel(conv.bias, v)


def blocks(model, v, conv):
    for block in model.blocks:
        out = conv(block.conv, v) + _mix(block.skip.weight, None, v)
        out = gelu(out) if block.activate else out
        out = mlp(block.mlp.fcs, out) + _per_channel(block.mlp_skip.weight, v) * v
        v = gelu(out) if block.activate else out
    return v


def fno(model, x, conv=fourier_conv):
    x = x.double()
    axes = [torch.arange(n, dtype=torch.float64) / n for n in x.shape[2:]]
    grid = torch.stack(torch.meshgrid(*axes, indexing="ij")).expand(len(x), -1, *x.shape[2:])
    v = mlp(model.lifting.fcs, torch.cat([x, grid], dim=1))
    return mlp(model.projection.fcs, blocks(model, v, conv))


def sfno(model, x):
    return fno(model, x, spherical_conv)


def unet(model, x):
    def twice(part, v):
        for layer in part:
            weight, bias = layer.weight.double(), layer.bias.double()
            if isinstance(layer, NormActivation):
                v = gelu(nn.functional.group_norm(v, layer.groups, weight, bias))
            else:
                v = nn.functional.conv2d(v, weight, bias, padding=weight.shape[-1] // 2)
        return v

    v, skips = twice(model.first, x.double()), []
    for down in model.down:
        skips.append(v)
        v = twice(down, nn.functional.max_pool2d(v, 2))
    for up, merge in zip(reversed(model.up), reversed(model.merge), strict=True):
        v = nn.functional.conv_transpose2d(v, up.weight.double(), up.bias.double(), stride=2)
        v = twice(merge, torch.cat([skips.pop(), v], dim=1))
    return nn.functional.conv2d(v, model.head.weight.double(), model.head.bias.double())


def _embedded(points, channels, longest):
    # Frequencies are fp32 numbers in neuraloperator: constants of the model.
    k = torch.arange(channels)
    frequencies = ((1 / longest) ** (k / channels * 2)).double()
    angles = points.unsqueeze(-1) * frequencies
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


def _kernel(kernel, data, queries, f, radius):
    """All pairs, those too far apart masked; (Q, C)."""
    e = kernel.embedding
    at_data, at_queries = (_embedded(p, e.channels, e.max_positions) for p in (data, queries))
    pairs = torch.cat([at_data.expand(len(queries), -1, -1), at_queries[:, None].expand(-1, len(data), -1)], dim=2)
    near = torch.cdist(queries, data, compute_mode="donot_use_mm_for_euclid_dist") <= radius
    messages = mlp(kernel.fcs, pairs.flatten(0, 1)).unflatten(0, near.shape) * f * near.unsqueeze(2)
    total = messages.sum(1)
    return total / near.sum(1, keepdim=True).clamp(min=1) if kernel.reduction == "mean" else total


def gino(model, points, latent, queries, x, features):
    """One geometry and one function: (n, d), (*grid, d), (m, d), (n, C), (*grid, F) to (m, O)."""
    grid = latent.shape[:-1]
    points, nodes, queries = points.double(), latent.double().flatten(0, -2), queries.double()
    v = _kernel(model.gno_in, points, nodes, x.double(), model.in_gno_radius)
    v = torch.cat([v, features.double().flatten(0, -2)], dim=1).T.reshape(1, -1, *grid)
    v = blocks(model, mlp(model.lifting.fcs, v), fourier_conv)
    rows = _kernel(model.gno_out, nodes, queries, v[0].flatten(1).T, model.out_gno_radius)
    return mlp(model.projection.fcs, rows)
