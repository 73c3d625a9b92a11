"""The seam of the hardware: what is said holds everywhere, leaks nowhere, and nobody else asks the machine."""

import re
import threading
from pathlib import Path

import pytest
import torch

import halfwave as hw
from halfwave.numerics import (
    FORMATS,
    arithmetic_of,
    cpu_multiplies,
    describe_cpu,
    hardware,
    multiplies_natively,
    on_threads,
    thread_count,
)
from halfwave.precision import Policy
from halfwave.spectral import estimate_transform
from halfwave.training.run_directory import describe_environment

pytestmark = pytest.mark.hardware

SOURCE = Path(hw.__file__).parent


def how(format):
    return arithmetic_of(format, "cpu").how


def test_what_is_said_holds_inside_and_ends_with_it():
    before = (how("bf16"), how("fp16"))
    with cpu_multiplies("bf16"):
        assert (how("bf16"), how("fp16")) == ("native", "wide")
        with cpu_multiplies("fp16"):
            assert (how("bf16"), how("fp16")) == ("wide", "native")
        with pytest.raises(ZeroDivisionError), cpu_multiplies("fp16"):
            1 / 0  # noqa: B018
        with cpu_multiplies():
            assert (how("bf16"), how("fp16")) == ("wide", "wide")
        assert (how("bf16"), how("fp16"), how("fp32"), how("tf32")) == ("native", "wide", "native", "emulated")
        assert multiplies_natively(FORMATS["fp16"], "cuda"), "of the CPU alone"
    assert (how("bf16"), how("fp16")) == before
    with pytest.raises(ValueError, match="unknown half format 'fp32': expected bf16, fp16"), cpu_multiplies("fp32"):
        pass


def test_every_thread_computes_on_the_same_cpu():
    found = []
    for formats in ((), ("bf16",)):
        with cpu_multiplies(*formats):
            worker = threading.Thread(target=lambda: found.append(how("bf16")))
            worker.start()
            worker.join()
    assert found == ["wide", "native"]


def test_threads_are_set_and_given_back():
    before = thread_count()
    for count in (1, 2):
        with on_threads(count):
            assert thread_count() == torch.get_num_threads() == count
    assert thread_count() == before


def test_records_say_what_the_machine_was():
    for formats, words in (((), "none"), (("bf16",), "bf16"), (("bf16", "fp16"), "bf16, fp16")):
        with cpu_multiplies(*formats), on_threads(2):
            assert describe_cpu().endswith(f"2 threads, native half: {words}")
            assert describe_environment()["cpu"] == describe_cpu()


def models():
    torch.manual_seed(0)
    policy = Policy.named("mixed", dtype="bf16")
    yield hw.FNO((4, 4), 1, 1, 4, n_layers=1, backend="gemm", precision=policy), torch.randn(1, 1, 8, 8)
    yield hw.SFNO((4, 4), 1, 1, 4, n_layers=1, precision=policy), torch.randn(1, 1, 8, 16)


def answer(model, x, *formats):
    with torch.no_grad(), cpu_multiplies(*formats):
        return model(x)


def test_caches_hold_both_machines_apart():
    """Matrices, costs, plans: going back and forth gives each time the bits of the first time."""
    costs = []
    for formats in ((), ("bf16",), ()):
        with cpu_multiplies(*formats):
            costs.append(estimate_transform((64, 64), (16, 16), format="bf16").gemm)
    assert costs[0] == costs[2] != costs[1]
    for model, x in models():
        wide, native, again = (answer(model, x, *formats) for formats in ((), ("bf16",), ()))
        assert torch.equal(wide, again)
        assert not torch.equal(wide, native)
        assert torch.equal(native, answer(model, x, "bf16"))


def test_a_compiled_model_follows_the_machine():
    """A graph is for one arithmetic: another one is compiled, and the first is found again."""
    for model, x in models():
        conv, fields = model.blocks[0].conv, x.expand(-1, 4, -1, -1)
        compiled = torch.compile(conv, backend="eager")
        for formats in ((), ("bf16",), ()):
            assert torch.equal(answer(compiled, fields, *formats), answer(conv, fields, *formats))


def test_no_other_module_asks_the_machine():
    """The list of what depends on hardware is the docstring of numerics/hardware.py, and complete."""
    probe = re.compile(
        r"torch\.cpu\b|backends\.(cpu|mkl\w*)\b|_is_(avx|amx|arm)\w*|\b[gs]et_num_(interop_)?threads|get_cpu_capability"
        r"|cpu_count|sched_getaffinity|sysconf|SC_PHYS|/proc/|OMP_NUM_THREADS|platform\.processor"
    )
    found = {path.relative_to(SOURCE): probe.search(path.read_text()) for path in SOURCE.rglob("*.py")}
    asking = sorted(str(path) for path, match in found.items() if match)
    assert asking == ["numerics/hardware.py"]


def test_the_list_names_every_answer():
    names = [
        name for name, value in vars(hardware).items() if callable(value) and value.__module__ == hardware.__name__
    ]
    public = {name for name in names if not name.startswith("_")} - {"describe_cpu"}
    assert {name for name in public if f"`{name}" not in hardware.__doc__} == set()
