"""ONNX files: what ONNX Runtime answers beside torch, for every form, batch, grid and format."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from exported_models import FORMS, MIXED, build, relative

import halfwave as hw
from halfwave.data import Normalizer
from halfwave.errors import InputError
from halfwave.export import build_program, export, writing
from halfwave.export.onnx_file import build_onnx
from halfwave.models.nonlinearity import NONLINEARITIES
from halfwave.models.pointwise import ChannelMLP
from halfwave.numerics import cpu_multiplies, portably
from halfwave.training import Operator


def _session(file):
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    session = onnxruntime.InferenceSession(file, quiet)
    return lambda x: torch.from_numpy(session.run(None, {"x": x.numpy()})[0])


def _ask(model, x):
    with torch.no_grad():
        return model(x)


@pytest.mark.parametrize("form", FORMS)
def test_onnx_runtime_answers_as_torch(form, tmp_path):
    model, grid = build(form)
    before = _ask(model, torch.ones(2, 1, *grid))
    written = hw.export(model, tmp_path / "model.onnx", grid=grid)
    assert torch.equal(_ask(model, torch.ones(2, 1, *grid)), before)
    run = _session(written.path)
    for batch in (1, 5):
        x = torch.randn(batch, 1, *grid)
        assert relative(run(x), _ask(model, x)) <= 2e-6
    file = onnx.load(written.path)
    assert {entry.domain for entry in file.opset_import} == {""}
    assert not file.functions
    assert str(tmp_path.anchor + "work").encode() not in written.path.read_bytes()


@pytest.mark.parametrize("form", ["2-D, padded, group norm", "CP", "U-Net"])
def test_free_grids(form, tmp_path):
    model, _ = build(form)
    written = hw.export(model, tmp_path / "model.onnx", dynamic=("batch", "grid"))
    run = _session(written.path)
    for shape in ((1, 1, 19, 23), (5, 1, 16, 30), (2, 1, 31, 17)):
        x = torch.randn(shape)
        assert relative(run(x), _ask(model, x)) <= 2e-6
    if form == "CP":
        with pytest.raises(Exception, match="grid axis 2 needs at least 8 points, as many as the modes"):
            run(torch.randn(1, 1, 20, 7))


@pytest.mark.parametrize(("half", "limit"), [("fp16", 2e-3), ("bf16", 2e-2)])
def test_half_policies_round_inside_the_file(half, limit):
    model, grid = build("2-D, two blocks", precision=MIXED[half])
    files = []
    for formats in ((), ("bf16",)):
        with cpu_multiplies(*formats):
            files.append(build_onnx(build_program(model, grid)).SerializeToString())
    assert files[0] == files[1]  # the graph is the same, whatever the host multiplies
    x = torch.randn(4, 1, *grid)
    answer, expected = _session(files[0])(x), _ask(model, x)
    assert relative(answer, expected) <= limit
    full, _ = build("2-D, two blocks")
    assert relative(answer, _ask(full, x)) > 1e-5


def test_every_nonlinearity_in_onnx_runtime(tmp_path):
    class All(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(ChannelMLP(1, 8, 1, non_linearity=name) for name in NONLINEARITIES)

        def forward(self, x):
            with portably():
                return torch.cat([layer(x) for layer in self.layers], dim=1)

    torch.manual_seed(0)
    model, x = All().eval(), 5 * torch.randn(2, 1, 200)
    torch.onnx.export(model, (x,), tmp_path / "all.onnx", dynamo=True, verbose=False, input_names=["x"])
    for answer, expected in zip(_session(tmp_path / "all.onnx")(x).unbind(1), _ask(model, x).unbind(1), strict=True):
        assert relative(answer, expected) <= 2e-6


def test_normalizers_are_part_of_the_program(tmp_path):
    model, grid = build("1-D, instance norm, before")
    operator = Operator(
        model,
        Normalizer(torch.tensor([30.0]), torch.tensor([4.0])),
        Normalizer(torch.tensor([-7.0]), torch.tensor([0.2])),
    )
    x = 30 + 4 * torch.randn(2, 1, *grid)
    written = export(operator, tmp_path / "model.onnx", grid=grid, dynamic=(), samples=x)
    assert written.differences[-1].what == "1 real"
    answer = _session(written.path)(x[:1])
    assert relative(answer, _ask(operator, x[:1])) <= 2e-6
    assert -8 < float(answer.mean()) < -6


def test_half_weights_take_half_the_bytes(tmp_path):
    torch.manual_seed(0)
    model = hw.FNO((16, 16), 1, 1, 24, n_layers=1).eval()
    sizes = {}
    for weights in ("fp32", "fp16"):
        written = hw.export(model, tmp_path / f"{weights}.onnx", grid=(32, 32), weights=weights)
        sizes[weights] = written.bytes
    assert sizes["fp16"] <= 0.56 * sizes["fp32"]
    x = torch.randn(2, 1, 32, 32)
    assert 0 < relative(_session(tmp_path / "fp16.onnx")(x), _ask(model, x)) < 1e-3


def test_a_file_that_answers_otherwise_is_not_left(tmp_path, monkeypatch):
    model, grid = build("1-D, instance norm, before")

    def wrong(path):
        assert path.exists()
        return lambda x: torch.full((len(x), 1, *grid), np.nan)

    target = writing.TARGETS["onnx"]
    monkeypatch.setattr(writing, "TARGETS", {"onnx": writing.Target(target.suffix, target.write, wrong)})
    with pytest.raises(InputError, match="answers otherwise than torch"):
        export(model, tmp_path / "model.onnx", grid=grid)
    assert list(tmp_path.iterdir()) == []


def test_what_neuraloperators_exporters_say_today():
    from neuralop.models import FNO

    model, x = FNO((4,), 1, 1, 4, n_layers=1).eval(), torch.randn(1, 1, 16)
    said = []
    for dynamo in (True, False):
        try:
            torch.onnx.export(model, (x,), "/dev/null", dynamo=dynamo, verbose=False)
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    if len(said) < 2:
        pytest.skip("neuraloperator's FNO exports to ONNX now")
    assert "ONNX" in said[0]
    assert "complex" in said[1].lower() or "fft" in said[1].lower()
