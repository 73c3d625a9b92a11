"""Where npm has no ONNX Runtime Web, one line says so, and soon."""

import stat

import pytest

from halfwave.errors import InputError
from halfwave.export.page import web_runtime as module


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """Puts a made-up npm in the path, and an empty cache."""
    monkeypatch.setenv("HALFWAVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def install(script):
        program = tmp_path / "npm"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    return install


@pytest.mark.parametrize(
    ("script", "patience", "said"),
    [
        ("echo 'code ENOTFOUND' >&2; exit 1", 60.0, "code ENOTFOUND"),
        ("exit 0", 60.0, "no package came"),
        ("exec sleep 30", 0.3, "nothing for 0 s"),
    ],
)
def test_an_npm_without_the_package_is_one_line(npm, monkeypatch, script, patience, said):
    monkeypatch.setattr(module, "PATIENCE", patience)
    npm(script)
    with pytest.raises(InputError, match="a page needs onnxruntime-web") as raised:
        module.web_runtime()
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
