"""`halfwave export`: a run becomes a program, and what cannot is one line."""

import torch

from halfwave.training import load


def test_a_run_becomes_a_program(command, trained, tmp_path):
    out = tmp_path / "model.pt2"
    code, text, err = command("export", trained, "--format", "pt2", "--out", out, "--dynamic", "none")
    assert code == 0, err
    assert "input 1 x 1 x 16 x 16" in text
    assert "1 real: " in text
    x = 3 + 9 * torch.rand(1, 1, 16, 16)
    with torch.no_grad():
        answer, expected = torch.export.load(out).module()(x), load(trained / "model.safetensors")(x)
    assert float((answer - expected).norm() / expected.norm()) < 2e-2  # the run's policy is mixed


def test_bad_input_is_one_line(fails, trained, tmp_path):
    fails(2, "unknown --format 'exe': expected one of onnx, pt2, aoti, html", "export", trained, "--format", "exe")
    fails(2, "unknown --weights 'int8'", "export", trained, "--weights", "int8")
    fails(2, "unknown --policy 'low'", "export", trained, "--policy", "low")
    fails(2, "grid must be 2 positive sizes", "export", trained, "--grid", "16")
    fails(1, "does not exist", "export", tmp_path / "none")
