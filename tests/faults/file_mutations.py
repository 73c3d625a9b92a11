"""Random damage to bytes, the same for the same seed: flips, overwritten and moved spans, numbers of ill repute."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from guarded import run_trials

ILL_REPUTE = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**63, 2**64 - 1)
_HEAD, _TAIL = 512, 256


def mutate(content, rng):
    """`content`, changed in one place."""
    while True:
        changed = KINDS[rng.integers(len(KINDS))](bytearray(content), rng)
        if changed != content:
            return bytes(changed)


def _place(size, rng):
    """Anywhere, or more often where formats keep their structure: at the beginning and at the end."""
    where = rng.integers(4)
    if where == 0:
        return int(rng.integers(min(size, _HEAD)))
    if where == 1:
        return size - 1 - int(rng.integers(min(size, _TAIL)))
    return int(rng.integers(size))


def flip_bit(content, rng):
    content[_place(len(content), rng)] ^= 1 << int(rng.integers(8))
    return content


def change_byte(content, rng):
    content[_place(len(content), rng)] = int(rng.integers(256))
    return content


def write_number(content, rng):
    width = int(rng.choice([1, 2, 4, 8]))
    number = ILL_REPUTE[rng.integers(len(ILL_REPUTE))] % 256**width
    at = _place(len(content), rng)
    content[at : at + width] = number.to_bytes(width, "little")[: len(content) - at]
    return content


def fill(content, rng):
    at, length = _place(len(content), rng), int(rng.integers(1, 65))
    length = min(length, len(content) - at)
    content[at : at + length] = bytes([int(rng.choice([0, 0xFF, 0x20]))]) * length
    return content


def scramble(content, rng):
    at, length = _place(len(content), rng), int(rng.integers(2, 65))
    length = min(length, len(content) - at)
    content[at : at + length] = rng.bytes(length)
    return content


def truncate(content, rng):
    return content[: _place(len(content), rng)]


def take_out(content, rng):
    at = _place(len(content), rng)
    del content[at : at + int(rng.integers(1, 65))]
    return content


def repeat(content, rng):
    at, length = _place(len(content), rng), int(rng.integers(1, 65))
    content[at:at] = content[at : at + length]
    return content


def swap(content, rng):
    length = min(int(rng.integers(1, 33)), len(content) // 2)
    a, b = (min(_place(len(content), rng), len(content) - length) for _ in range(2))
    content[a : a + length], content[b : b + length] = content[b : b + length], content[a : a + length]
    return content


KINDS = (flip_bit, flip_bit, change_byte, write_number, fill, scramble, truncate, take_out, repeat, swap)


def run_mutations(specimen, count, seed):
    """Read `count` damaged copies of a specimen: the outcome of all."""
    with tempfile.TemporaryDirectory(prefix="halfwave-faults-") as folder:
        path = specimen.make(Path(folder))
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        contents = [file.read_bytes() for file in files]
        reference = specimen.read(path)

        def trial(number):
            # Numbers of the name and not its place in the list: the same damage whatever else is tried.
            rng = np.random.default_rng([seed, number, *specimen.name.encode()])
            chosen = int(rng.integers(len(files)))
            files[chosen].write_bytes(mutate(contents[chosen], rng))
            try:
                return specimen.read(path)
            finally:
                files[chosen].write_bytes(contents[chosen])

        return run_trials(specimen.name, count, trial, reference)


def keep_damaged(specimen, number, seed, target):
    """The damaged copy of one trial, to look at: written to `target`."""
    with tempfile.TemporaryDirectory(prefix="halfwave-faults-") as folder:
        path = specimen.make(Path(folder))
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        rng = np.random.default_rng([seed, number, *specimen.name.encode()])
        chosen = files[int(rng.integers(len(files)))]
        chosen.write_bytes(mutate(chosen.read_bytes(), rng))
        shutil.move(path, target)
