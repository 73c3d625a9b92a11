"""The TFNO: neuraloperator's defaults, its parameters."""

import pytest
import torch
from neuralop.models import TFNO as PeerTFNO

import halfwave as hw
from halfwave.models import build_model


def test_has_the_defaults_and_parameters_of_neuraloperators():
    shared = {"n_modes": (12, 12), "in_channels": 1, "out_channels": 1, "hidden_channels": 16}
    ours, peer = hw.TFNO(**shared), PeerTFNO(**shared)
    assert (ours.config["factorization"], ours.config["rank"]) == ("tucker", 0.1)
    theirs = [v for v in peer.state_dict().values() if isinstance(v, torch.Tensor)]
    count = sum(t.numel() * (2 if t.is_complex() else 1) for t in theirs)
    assert sum(p.numel() for p in ours.parameters()) == count


def test_config_builds_the_same_model_again(tmp_path):
    model = hw.TFNO((6, 6), 1, 1, 8, n_layers=1, factorization="tt", rank=(1, 2, 3, 2, 1), fno_skip="identity")
    assert model.config["fno_skip"] == "identity"
    assert "options" not in model.config
    again = build_model("TFNO", model.config)
    again.load_state_dict(model.state_dict())
    x = torch.randn(1, 1, 12, 12)
    assert torch.equal(again(x), model(x))


def test_unknown_arguments_raise():
    with pytest.raises(ValueError, match=r"TFNO: .*width"):
        build_model("TFNO", {"n_modes": [4], "in_channels": 1, "out_channels": 1, "hidden_channels": 2, "width": 3})
