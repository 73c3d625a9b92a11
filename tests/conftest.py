"""The machine of a test process: one thread, and a CPU that multiplies what HALFWAVE_CPU_MULTIPLIES says.

`bf16`, `fp16`, both with a comma, `none`, or `other` than this CPU does; without the variable the CPU is as it is. One
thread, because small tensors gain nothing from two and processes that share cores lose much; OMP_NUM_THREADS says more.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
# Of two threads, the one that waits leaves its core to others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from halfwave.numerics import FORMATS, avoid_missing_tiles, cpu_multiplies, multiplies_natively

avoid_missing_tiles()  # tests multiply bf16 on every machine, those that would die of it included
_PRETENDED = ExitStack()


@dataclass(frozen=True)
class Machine:
    """A CPU that multiplies these half formats."""

    multiplies: tuple[str, ...]

    @property
    def half(self):
        """The half format that is cheapest on it: the more accurate one, unless it multiplies the other."""
        return "bf16" if self.multiplies == ("bf16",) else "fp16"

    def __str__(self):
        return "+".join(self.multiplies) or "no-half"


def _native():
    return tuple(name for name in ("bf16", "fp16") if multiplies_natively(FORMATS[name], "cpu"))


def _named(said):
    """The half formats that HALFWAVE_CPU_MULTIPLIES asks for."""
    if said == "other":
        return () if _native() else ("bf16",)
    return () if said == "none" else tuple(said.split(","))


def pytest_configure(config):
    said = os.environ.get("HALFWAVE_CPU_MULTIPLIES")
    if said is not None:
        _PRETENDED.enter_context(cpu_multiplies(*_named(said)))


def pytest_unconfigure(config):
    _PRETENDED.close()


def pytest_generate_tests(metafunc):
    """On both kinds of machine in one run, unless the whole run is on one kind."""
    if "hardware" in metafunc.fixturenames:
        one = "HALFWAVE_CPU_MULTIPLIES" in os.environ
        machines = [Machine(_native())] if one else [Machine(()), Machine(("bf16",))]
        metafunc.parametrize("hardware", machines, ids=str, indirect=True, scope="session")


@pytest.fixture(scope="session")
def hardware(request):
    """The machine that the test runs on: each kind in turn. Fixtures that compute something ask for it as well."""
    with cpu_multiplies(*request.param.multiplies):
        yield request.param


LONG_ROOMS = ("training", "export", "experiments", "parallel", "docs", "report", "faults", "cli", "optimizers", "data")
"""The longest files are in these: begun last, one of them would keep a single process busy at the end."""


def pytest_collection_modifyitems(items):
    for item in items:
        if "hardware" in item.fixturenames:
            item.add_marker(pytest.mark.hardware)
    items.sort(key=_room_rank)


def _room_rank(item):
    room = item.path.relative_to(Path(__file__).parent).parts[0]
    return LONG_ROOMS.index(room) if room in LONG_ROOMS else len(LONG_ROOMS)


def pytest_terminal_summary(terminalreporter):
    """A skipped test of a page proves nothing: said aloud, once."""
    reasons = {str(report.longrepr[2]).removeprefix("Skipped: ") for report in terminalreporter.getreports("skipped")}
    for reason in sorted(reason for reason in reasons if reason.startswith("PAGE NOT LOOKED AT")):
        terminalreporter.section(reason, red=True, bold=True)
