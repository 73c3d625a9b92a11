"""Ctrl-C while a command is still importing: exit code 130 and one line."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks into /proc to see what is being imported")
def test_an_interrupt_while_torch_is_imported_ends_in_one_line(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "halfwave", "train", "darcy-small", "--out", str(tmp_path / "run")],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a job in the background ignores
    )
    maps, deadline = Path(f"/proc/{process.pid}/maps"), time.monotonic() + 60
    while "libtorch" not in maps.read_text():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (
        130,
        "halfwave: interrupted; the same command goes on where it stopped\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_that_is_ignored_stays_so(tmp_path):
    """As of a job in the background of a shell."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); from halfwave import cli;"
        "cli._leave_on_interrupt(); cli._raise_on_interrupt(); signal.raise_signal(signal.SIGINT); print('still here')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "still here\n")


def test_an_interrupt_after_the_end_leaves_the_exit_code_as_it_is(tmp_path):
    """Whatever was registered before the command runs after it, as the interpreter's own teardown does."""
    code = (
        "import atexit, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "atexit.register(signal.raise_signal, signal.SIGINT);"
        "from halfwave import cli; cli.main(['bounds'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
