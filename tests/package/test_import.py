"""What `import halfwave` brings with it: a program that builds a model waits for nothing else."""

import subprocess
import sys

HEAVY = ("torch._dynamo", "scipy", "matplotlib", "h5py", "torch_harmonics", "lightning_fabric", "tyro", "pydantic")


def test_importing_imports_nothing_that_a_model_does_not_need() -> None:
    code = f"import sys, halfwave; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_building_and_running_a_model_imports_nothing_either() -> None:
    code = (
        "import sys, torch, halfwave as hw; m = hw.FNO((4, 4), 1, 1, 4, precision='mixed'); m(torch.ones(1, 1, 8, 8));"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
