"""Commands on a full disk, and under a limit of file sizes: one line, nothing left over, the earlier file whole.

Each scenario runs in a process and a folder of its own: it prepares what the command needs, takes the room away (a
file that fills a small tmpfs, or RLIMIT_FSIZE), runs the command, looks at what is there, gives the room back and runs
it again.
"""

import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from guarded import Outcome

PATIENCE = 300
_DISK = 8 << 20
_FILLER = "filler"


class Scenario:
    """A command, the file that it writes, and the room that it is left: bytes of a file, twice as many of a disk."""

    def __init__(self, output, room, *arguments, earlier=True):
        self.output, self.room, self.arguments, self.earlier = output, room, arguments, earlier


def _data(name, *more):
    return ("data", name, "--out", "d.h5", "--n-train", "20", "--n-test", "4", "--workers", "1", *more)


# What a shard takes is less than the room, what all of them and the whole file take is more.
SCENARIOS = {
    "fields": Scenario("d.h5", 46_000, *_data("darcy", "--resolution", "16"), earlier=False),
    "fields, forced": Scenario("d.h5", 46_000, *_data("darcy", "--resolution", "16", "--force")),
    "shards": Scenario("d.h5", 6_000, *_data("darcy", "--resolution", "16", "--force")),
    "in time": Scenario("d.h5", 40_000, *_data("heat", "--resolution", "32", "--parameters", "steps=15", "--force")),
    "clouds": Scenario("d.h5", 90_000, *_data("car", "--resolution", "100", "--force")),
    "prediction": Scenario("p.h5", 20_000, "predict", "model.safetensors", "in.h5", "p.h5"),
    "prediction, npy": Scenario("p.npy", 20_000, "predict", "model.safetensors", "in.h5", "p.npy"),
    "rollout": Scenario(
        "out/rollout.npz",
        3_000,
        "rollout",
        "steps.safetensors",
        "--data",
        "time.h5",
        "--out",
        "out",
        "--animation",
        "none",
        "--against",
        "none",
    ),
}


def run_full_disks(names=None, kinds=("size limit", "full disk")):
    """Every scenario under each kind of shortage that this machine allows: one outcome."""
    outcome = Outcome("full disks")
    for kind in kinds:
        if kind == "full disk" and not can_mount():
            outcome.notes.append("no full disk: this user may not mount a tmpfs")
            continue
        for name, said in run_apart(names or list(SCENARIOS), kind).items():
            _count(outcome, f"{name} ({kind})", said)
    return outcome


def can_mount():
    """Whether a tmpfs of a few KB can be had, in a namespace of its own."""
    if shutil.which("unshare") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = ["unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=64k", "none", folder]
        return subprocess.run(command, capture_output=True).returncode == 0


def run_apart(names, kind):
    """What the process of each scenario says, or how it ended; one that has imported the library forks them all."""
    with tempfile.TemporaryDirectory(prefix="halfwave-disk-") as folder:
        command = [sys.executable, __file__, kind, folder, *names]
        if kind == "full disk":
            mount = f'mount -t tmpfs -o size={_DISK} none "$0" && exec "$@"'
            command = ["unshare", "-rm", "sh", "-c", mount, folder, *command]
        ended = subprocess.run(command, capture_output=True, text=True)
    said = dict(json.loads(line) for line in ended.stdout.splitlines() if line.startswith("["))
    return {name: said.get(name, {"crashed": f"code {ended.returncode}: {ended.stderr[-300:]}"}) for name in names}


def run_forked(name, kind, folder):
    """The scenario in a child and a folder of its own: what it says, or how it ended."""
    os.makedirs(folder)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        os.write(write, json.dumps(run_here(name, kind, folder)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    shutil.rmtree(folder)
    if code:
        return {"hung": True} if code == -signal.SIGALRM else {"crashed": f"code {code}"}
    return json.loads(said)


def _count(outcome, name, said):
    outcome.tried += 1
    word = next((word for word in ("hung", "crashed", "raw", "altered") if said.get(word)), "refused")
    setattr(outcome, word, getattr(outcome, word) + 1)
    if word != "refused":
        outcome.notes.append(f"{name}: {said[word]}")


def run_here(name, kind, folder):
    """The scenario, in its own process and folder."""
    import halfwave.cli

    scenario = SCENARIOS[name]
    os.chdir(folder)
    _prepare()
    target = Path(scenario.output)
    if scenario.earlier:
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(b"the user's")
    before = _tree()
    give_back = _take_room(kind, scenario.room)
    code, said = _run(halfwave.cli.run, scenario.arguments)
    left, whole = _tree() - before - {_FILLER}, not scenario.earlier or target.read_bytes() == b"the user's"
    give_back()
    again, _ = _run(halfwave.cli.run, scenario.arguments)
    failures = [line for line in said.splitlines() if line.startswith("halfwave: ")]
    clean = code == 1 and len(failures) == 1 and "cannot write" in failures[0] and "Traceback" not in said
    debris = sorted(name for name in left if not _is_progress(name))
    return {
        "raw": "" if clean else f"code {code}: {said[-300:]}",
        "altered": "" if whole and not debris and again == 0 else f"whole {whole}, left {debris}, again {again}",
        "said": failures,
    }


def _prepare():
    """A model and what it is applied to."""
    import torch

    import halfwave as hw
    from halfwave.data import Darcy, Heat, generate
    from halfwave.models import Unrolled, Unrolling
    from halfwave.training import Operator

    torch.manual_seed(0)
    generate(Darcy(resolution=32), "in.h5", n_train=1, n_test=12)
    generate(Heat(resolution=64, steps=8), "time.h5", n_train=1, n_test=8)
    fno = hw.FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=4, n_layers=1)
    hw.save(Operator(fno, None, None), "model.safetensors")
    line = hw.FNO(n_modes=(4,), in_channels=1, out_channels=1, hidden_channels=4, n_layers=1)
    hw.save(Operator(Unrolled(line, Unrolling(1)), None, None), "steps.safetensors")


def _tree():
    return {str(path) for path in Path().rglob("*")}


def _is_progress(name):
    """Finished samples of a dataset, which the same command goes on from; and what a rollout wrote before."""
    return (".h5.halfwave-partial" in name and not Path(name).name.startswith(".")) or name.startswith("out")


def _run(command, arguments):
    said = StringIO()
    with redirect_stderr(said), redirect_stdout(said):
        code = command(list(arguments))
    return code, said.getvalue()


def _take_room(kind, room):
    """Leave `room` bytes to the files that are written from now on; a function that gives all back."""
    if kind == "size limit":
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    filler = Path(_FILLER)
    free = os.statvfs(".")
    filler.write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - 2 * room)))
    return filler.unlink


if __name__ == "__main__":
    for module in ("training", "commands.data", "commands.predict", "commands.rollout", "commands.interface"):
        importlib.import_module(f"halfwave.{module}")  # before the forks

    kind, place, *chosen = sys.argv[1:]
    for number, scenario in enumerate(chosen):
        print(json.dumps([scenario, run_forked(scenario, kind, f"{place}/{number}")]), flush=True)
