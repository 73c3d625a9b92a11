"""What a program sees of the library: names, one call to load, layers by name, a model that prints what it is."""

import inspect
import subprocess
import sys

import pytest
import torch

import halfwave as hw
from halfwave.models import MODELS, Foreign, Unrolled
from halfwave.training import Operator

NAMES = {
    "FNO", "TFNO", "SFNO", "GINO", "UNet", "SpectralConv", "Policy", "Schedule", "load", "save", "train", "certify",
    "auto_precision", "compress", "export", "interop", "planner", "theory", "parallelize", "set_precision", "data",
}  # fmt: skip


def small(precision="full"):
    torch.manual_seed(0)
    return hw.FNO((4, 4), 1, 1, 8, n_layers=2, precision=precision)


def test_dir_shows_what_there_is_before_it_is_imported():
    code = "import sys, halfwave as hw; print(*dir(hw)); print('halfwave.training' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, imported = done.stdout.splitlines()
    assert set(names.split()) >= NAMES
    assert imported == "False"


def test_every_name_of_dir_is_there_and_nothing_else_is_shown():
    shown = [name for name in dir(hw) if not name.startswith("__")]
    assert set(shown) == set(hw.__all__)
    assert all(getattr(hw, name) is not None for name in shown)


@pytest.mark.parametrize(
    "cls", [*MODELS.values(), hw.SpectralConv, Operator, Unrolled, Foreign], ids=lambda c: c.__name__
)
def test_forward_says_its_shapes(cls):
    text = inspect.getdoc(cls.forward) or ""
    assert "(B, " in text
    assert any(name in text for name in ("*grid", "H, W"))


def test_load_takes_a_run_directory_and_is_ready_to_answer(tmp_path):
    model = small("mixed")
    (tmp_path / "config.json").write_text("{}")  # what makes a directory a run
    with pytest.raises(hw.InputError, match=r"has no model\.safetensors"):
        hw.load(tmp_path)
    hw.save(model, tmp_path / "model.safetensors")
    loaded = hw.load(tmp_path)
    assert not loaded.training
    x = torch.randn(1, 1, 12, 12)
    with torch.no_grad():
        assert torch.equal(loaded(x), model.eval()(x))
    with pytest.raises(hw.InputError, match="Is a directory"):
        hw.load(tmp_path.parent)
    with pytest.raises(hw.InputError, match="No such file"):
        hw.load(tmp_path / "nowhere")


def policies(model):
    return {name: m.policy.name for name, m in model.named_modules() if hasattr(m, "policy") and name}


@pytest.mark.parametrize(
    ("filter", "chosen"),
    [
        ("blocks.0", lambda name: name.startswith("blocks.0")),
        ("*.conv", lambda name: name.endswith(".conv")),
        (["lifting", "blocks.1.mlp"], lambda name: name.startswith(("lifting", "blocks.1.mlp"))),
        (lambda name, layer: isinstance(layer, hw.SpectralConv), lambda name: name.endswith(".conv")),
    ],
)
def test_single_layers_get_a_policy_and_the_others_stay(filter, chosen):
    model = small()
    hw.set_precision(model, "mixed", filter=filter)
    found = policies(model)
    assert {name for name, policy in found.items() if policy == "mixed"} == {name for name in found if chosen(name)}
    assert {policy for name, policy in found.items() if not chosen(name)} == {"full"}


def test_what_single_layers_have_is_computed_saved_and_undone(tmp_path):
    x, plain, model = torch.randn(2, 1, 12, 12), small().eval(), small().eval()
    half = hw.Policy.named("mixed", "bf16")
    model.set_precision(half, filter="blocks.0.conv")
    whole = small().eval()
    hw.set_precision(whole, hw.Policy(layers={"blocks.0.conv": half}))
    with torch.no_grad():
        reference, found = plain(x), model(x)
        assert torch.equal(found, whole(x))
        assert 1e-6 < float((found - reference).norm() / reference.norm()) < 3e-2
        hw.save(model, tmp_path / "m.safetensors")
        assert torch.equal(hw.load(tmp_path / "m.safetensors")(x), found)
        hw.set_precision(model, "full", filter="blocks.0")
        assert torch.equal(model(x), reference)
    assert model.policy.layers == ()


def test_a_filter_that_chooses_nothing_says_what_there_is():
    model = small()
    with pytest.raises(ValueError, match=r"'block\.0' chooses no layer of FNO \(did you mean 'blocks\.0'\?\)"):
        hw.set_precision(model, "mixed", filter=["lifting", "block.0"])
    with pytest.raises(ValueError, match="the filter chooses no layer of FNO: its layers are lifting"):
        hw.set_precision(model, "mixed", filter=lambda name, layer: False)
    assert set(policies(model).values()) == {"full"}
    layered = hw.Policy(layers={"blocks.0": hw.Policy.named("half", "bf16")})
    with pytest.raises(ValueError, match="takes no filter"):
        hw.set_precision(model, layered, filter="lifting")


def test_print_tells_precision_parameters_and_bytes():
    model = hw.FNO((4, 4), 1, 1, 8, n_layers=1, precision=hw.Policy.named("mixed", "bf16"))
    count = sum(p.numel() for p in model.parameters())
    first = str(model).splitlines()[1].strip()
    assert first == f"precision=mixed (bf16), parameters={count:,}, weights={4 * count:,} bytes (float32)"
    assert "(projection): ChannelMLP(" in str(model), "torch's tree stays"
    hw.set_precision(model.half(), "full")
    assert f"precision=full (fp32), parameters={count:,}, weights={2 * count:,} bytes (float16)" in str(model)
