"""Small models of every form that is exported, each with an input's grid."""

import torch

import halfwave as hw

MIXED = {half: hw.Policy.named("mixed", dtype=half) for half in ("fp16", "bf16")}

FORMS = {
    "1-D, instance norm, before": (
        hw.FNO,
        {"n_modes": (8,), "norm": "instance_norm", "preactivation": True, "non_linearity": "tanh"},
        (21,),
    ),
    "2-D, two blocks": (hw.FNO, {"n_modes": (8, 8), "n_layers": 2, "non_linearity": "silu"}, (17, 12)),
    "2-D, padded, group norm": (
        hw.FNO,
        {"n_modes": (8, 8), "domain_padding": [0.25, 0.1], "norm": "group_norm"},
        (18, 13),
    ),
    "3-D, sines, gates": (
        hw.FNO,
        {"n_modes": (4, 4, 4), "positional_embedding": "sinusoidal", "fno_skip": "soft-gating"},
        (7, 6, 8),
    ),
    "CP": (hw.TFNO, {"n_modes": (8, 8), "factorization": "cp", "rank": 0.3}, (17, 12)),
    "Tucker": (hw.TFNO, {"n_modes": (8, 8), "factorization": "tucker", "rank": 0.3}, (17, 12)),
    "TT": (hw.TFNO, {"n_modes": (8, 8), "factorization": "tt", "rank": 0.3}, (17, 12)),
    "sphere": (hw.SFNO, {"n_modes": (8, 8)}, (13, 24)),
    "U-Net": (hw.UNet, {"n_levels": 2, "non_linearity": "relu"}, (18, 13)),
}


def build(form, **options):
    kind, arguments, grid = FORMS[form]
    torch.manual_seed(3)
    layers = {} if kind is hw.UNet else {"n_layers": 1}
    model = kind(in_channels=1, out_channels=1, hidden_channels=8, **{**layers, **arguments, **options})
    return model.eval(), grid


def relative(y, expected):
    return float((y.double() - expected.double()).norm() / expected.double().norm())
