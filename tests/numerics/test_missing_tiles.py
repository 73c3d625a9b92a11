"""CPUs that claim tiles and have none are told from those that have them, and multiply bf16 in fp32."""

import os
import subprocess
import sys

import pytest

from halfwave.numerics import avoid_missing_tiles, hardware, missing_tiles, tiles_are_missing

FLAG = 1 << 24


@pytest.fixture
def cpu(monkeypatch):
    """A CPU by what it answers: its last leaf, whether it claims tiles, how many layouts they have."""

    def build(last, claims, layouts, kind="x86_64"):
        answers = {0: (last, 0, 0, 0), 0x7: (0, 0, 0, FLAG if claims else 0), 0x1D: (layouts, 0, 0, 0)}
        monkeypatch.setattr(missing_tiles, "_cpuid", answers.__getitem__)
        monkeypatch.setattr("platform.machine", lambda: kind)
        tiles_are_missing.cache_clear()

    yield build
    tiles_are_missing.cache_clear()


@pytest.mark.parametrize(
    ("last", "claims", "layouts", "missing"),
    [
        (0x20, True, 1, False),
        (0x20, True, 0, True),
        (0x1C, True, 5, True),
        (0x20, False, 0, False),
        (0x16, False, 1, False),
    ],
)
def test_tiles_without_a_layout_are_missing(cpu, last, claims, layouts, missing):
    cpu(last, claims, layouts)
    assert tiles_are_missing() == missing
    cpu(last, claims, layouts, kind="aarch64")
    assert not tiles_are_missing(), "other machines have no such leaves"


def test_bf16_is_not_native_without_the_tiles_that_are_claimed(cpu, monkeypatch):
    monkeypatch.setattr("torch.cpu._is_avx512_bf16_supported", lambda: True)
    for layouts, native in ((1, True), (0, False)):
        cpu(0x20, True, layouts)
        assert ("bf16" in hardware._native_half.__wrapped__()) == native


def test_what_the_user_said_of_instructions_stays(cpu, monkeypatch):
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    cpu(0x20, True, 1)
    avoid_missing_tiles()
    assert "ONEDNN_MAX_CPU_ISA" not in os.environ
    cpu(0x20, True, 0)
    avoid_missing_tiles()
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE_FP16"
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    avoid_missing_tiles()
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX2"


def test_a_mixed_model_computes_on_this_machine_whatever_it_claims():
    """In a process that no test has prepared, after a product that has oneDNN look at its environment."""
    code = (
        "import torch; a = torch.randn(64, 64); a @ a; import halfwave as hw; "
        "model = hw.FNO((16, 16), 1, 1, 64, precision=hw.Policy.named('mixed', dtype='bf16')); "
        "model(torch.randn(2, 1, 64, 64)).sum().backward(); print('computed')"
    )
    bare = {name: value for name, value in os.environ.items() if name != "ONEDNN_MAX_CPU_ISA"}
    done = subprocess.run([sys.executable, "-c", code], env=bare, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "computed\n"), done.stderr
