"""Trials in a forked process that is watched: a crash, a hang or a bomb is counted and does not end the run.

The child says before each trial which one it begins, and after it how it ended. Where the child dies or is silent for
too long the parent knows the trial, counts it, and forks another child for those that are left.
"""

import os
import resource
import select
import signal
from dataclasses import dataclass, field

from halfwave.errors import InputError

PATIENCE = 300.0
"""Seconds of one trial on a busy machine, more than `probing` gives a file that goes in circles; nearly all take
milliseconds."""
MEMORY_OVER = 300 * 2**20
"""Bytes above what the process had before the trial."""
_ROOM = 12 * 2**30
"""Address space of a child beyond what it has: a bomb that goes off ends in MemoryError, not in the machine's end."""

REFUSED, EQUAL, ALTERED, RAW, CRASHED, HUNG = "refused", "equal", "altered", "raw", "crashed", "hung"


@dataclass
class Outcome:
    """How many trials of one kind ended how; `memory_over` counts those that took more than 300 MB, beside the rest."""

    name: str
    tried: int = 0
    refused: int = 0
    equal: int = 0
    altered: int = 0
    raw: int = 0
    crashed: int = 0
    hung: int = 0
    memory_over: int = 0
    notes: list[str] = field(default_factory=list)
    """Which trials went wrong, and what was raised."""
    altered_trials: list[int] = field(default_factory=list)

    @property
    def bad(self):
        """Trials that must never happen, in any format."""
        return self.raw + self.crashed + self.hung + self.memory_over


def table(outcomes):
    """The counts as lines of text."""
    heads = ("tried", "refused", "equal", "altered", "raw", "crashed", "hung", "memory_over")
    width = max(len(outcome.name) for outcome in outcomes)
    rows = [f"{'':<{width}}  " + " ".join(f"{head:>11}" for head in heads)]
    return rows + [f"{o.name:<{width}}  " + " ".join(f"{getattr(o, head):>11}" for head in heads) for o in outcomes]


def run_trials(name, count, trial, reference=None):
    """`trial(i)` for every i below `count`; what it returns is compared with `reference`, InputError is a refusal."""
    outcome, begun = Outcome(name, tried=count), 0
    while begun < count:
        begun = _run_child(outcome, begun, count, trial, reference)
    return outcome


def _run_child(outcome, begun, count, trial, reference):
    """Fork a child for the trials from `begun` on; the first one that it did not get to."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _be_child(write, range(begun, count), trial, reference)
    os.close(write)
    at, buffer, ended = begun, b"", None
    while ended is None:
        ready, _, _ = select.select([read], [], [], PATIENCE)
        data = os.read(read, 65536) if ready else b""
        if not ready:
            os.kill(child, signal.SIGKILL)
            ended = HUNG
        elif not data:
            ended = CRASHED
        buffer += data
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            number, word, memory, note = line.decode("utf-8", "replace").split("\t", 3)
            at = int(number) + 1
            _count(outcome, word, int(memory), f"{number}: {note}" if note else "")
            outcome.altered_trials += [int(number)] if word == ALTERED else []
    os.close(read)
    os.waitpid(child, 0)
    if at < count:
        _count(outcome, ended, 0, f"{at}: {ended}")
        at += 1
    return at


def _count(outcome, word, memory, note):
    setattr(outcome, word, getattr(outcome, word) + 1)
    outcome.memory_over += memory > MEMORY_OVER
    if note or memory > MEMORY_OVER:
        outcome.notes.append(f"{outcome.name} {note or word} ({memory >> 20} MB)")


def _be_child(write, numbers, trial, reference):
    """Never returns."""
    try:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + _ROOM, hard))
        _be_quiet()
        for number in numbers:
            before = _reset_peak()
            word, note = _judge(trial, number, reference)
            os.write(write, f"{number}\t{word}\t{max(0, _status('VmHWM') - before)}\t{note}\n".encode())
    finally:
        os._exit(0)


def _be_quiet():
    """Libraries in C write to the error stream what they also raise."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _judge(trial, number, reference):
    try:
        found = trial(number)
    except InputError as error:
        return (REFUSED, "") if "\n" not in str(error) else (RAW, "a message of several lines")
    except BaseException as error:  # that is what is looked for
        return RAW, f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return (EQUAL if found == reference else ALTERED), ""


def _status(name):
    with open("/proc/self/status", encoding="ascii") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(name + ":"))


def _reset_peak():
    """Forget the peak so far; the bytes that are resident now."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return _status("VmRSS")
