"""`halfwave profile` from the command line: tables of 80 columns, three files, one-line refusals."""

import json

import pytest


def test_profile_writes_its_files(command, tmp_path):
    out = tmp_path / "out"
    code, text, err = command(
        "profile", "demo", "--batch", "1", "--grid", "24", "--steps", "1", "--out", out,
        "--mesh", "grid=2",
    )  # fmt: skip
    assert code == 0, err
    said = " ".join(text.split())
    assert "on data=1,grid=2 a process sends" in said
    assert "an FFT's transposes would send" in said
    assert {path.name for path in out.iterdir()} == {"profile.json", "profile.png", "trace.json"}
    result = json.loads((out / "profile.json").read_text())
    assert result["recipe"] == "demo"
    assert result["policy"]["name"] == "mixed"
    for title in ("by part", "by module", "by kernel", "copies and casts", "blocks.0.conv"):
        assert title in text
    tables = [line for line in text.splitlines() if line[:1] in "┏┃┡│└"]
    assert tables
    assert max(map(len, tables)) <= 80


@pytest.mark.parametrize(
    ("code", "message", "options"),
    [
        (2, "unknown recipe 'darcey': expected one of darcy, demo", ["darcey"]),
        (2, "--batch must be at least 1, got 0", ["demo", "--batch", "0"]),
        (2, "--steps must be at least 1, got -1", ["demo", "--steps", "-1"]),
        (1, "a grid of 8x8 is too small for n_modes [24, 24]", ["demo", "--grid", "8"]),
        (1, "resolution is 2", ["darcy-unet", "--grid", "2"]),
        (2, "unknown precision 'quarter'", ["demo", "--precision", "quarter"]),
        (2, "unknown format 'fp12'", ["demo", "--dtype", "fp12"]),
        (2, "device 'abacus' is not there", ["demo", "--device", "abacus"]),
        (2, "mesh 'rows=2' is none", ["demo", "--mesh", "rows=2"]),
    ],
)
def test_bad_input(fails, tmp_path, code, message, options):
    fails(code, message, "profile", *options, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
