"""Training on a mesh: the curves of one process, checkpoints that move between meshes, a kill that ends and resumes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from deaths import assert_same_run
from torch.utils.data import TensorDataset
from train_many import train_many

from forked import run_forked
from halfwave.data import open_dataset
from halfwave.data.arrays import ArrayPair, ChannelsFirst, Joined, PieceSource, Rows, Stacked, WithChannel
from halfwave.data.resampling import Resampled
from halfwave.domains import Box
from halfwave.errors import InputError
from halfwave.parallel import MeshShape
from halfwave.training import TrainConfig, load, train
from halfwave.training.records import read_metrics

SCRIPT = Path(__file__).parent / "train_many.py"
COLUMNS = ("train_loss", "test_l2", "test_h1")


@pytest.fixture(scope="module")
def settings(data_file):
    """Twelve samples in batches of five and two on a grid of 10 x 12: pieces of 5 and 5, or of 3, 3, 2 and 2 rows.

    Clipping is active in some steps and not in others, so a wrong factor on gradients would show.
    """
    return TrainConfig(
        data=str(data_file),
        arguments={"n_modes": (5, 4), "hidden_channels": 6, "n_layers": 2, "norm": "group_norm"},
        epochs=7,
        batch_size=5,
        learning_rate=1e-2,
        precision="full",
        clip=0.7,
        keep=100,
        optimizer="adamw_pair",
    )


CASES = {
    "FNO": {"mesh": "data=2,grid=2"},
    "TFNO": {"mesh": "grid=4", "in_memory": False, "accumulate": 2, "arguments": {"n_modes": (5, 4), "rank": 0.5}},
    "SFNO": {"mesh": "data=2,grid=2", "recompute": True, "arguments": {"n_modes": (5, 6)}},
}


def config_of(settings, model):
    changes = CASES[model]
    arguments = {"hidden_channels": 6, "n_layers": 2, **changes.get("arguments", settings.arguments)}
    return settings.model_copy(update={**changes, "model": model, "arguments": arguments})


def run_many(configs, folder, processes):
    path = folder / f"configs-{processes}.json"
    path.write_text(json.dumps({name: config.to_dict() for name, config in configs.items()}))
    run_forked(train_many, (path, folder), processes)


def move(source, target, checkpoint):
    """A run that was stopped at one of the checkpoints of another."""
    (target / "state").mkdir(parents=True)
    shutil.copy(source / "config.json", target)
    shutil.copy(source / "state" / checkpoint, target / "state")
    return target


@pytest.fixture(scope="module")
def on_two(settings, tmp_path_factory):
    """A run on two processes, with all of its checkpoints."""
    folder = tmp_path_factory.mktemp("two")
    run_many({"whole": settings.model_copy(update={"mesh": "grid=2"})}, folder, 2)
    return folder / "whole"


@pytest.fixture(scope="module")
def on_one(settings, tmp_path_factory):
    """The same run on one process."""
    folder = tmp_path_factory.mktemp("one")
    train(settings, folder / "whole", quiet=True)
    return folder / "whole"


@pytest.fixture(scope="module")
def on_four(settings, on_one, on_two, tmp_path_factory):
    """All runs on four processes, started once: every kind of model, checkpoints of one and two, 8-bit states."""
    folder = tmp_path_factory.mktemp("four")
    whole = settings.model_copy(update={"mesh": "grid=4"})
    move(on_two, folder / "2-4", checkpoints(on_two)[2])
    move(on_one, folder / "1-4", checkpoints(on_one)[2])
    kinds = {name: config_of(settings, name).model_copy(update={"epochs": 3}) for name in CASES}
    lean = lean_of(settings).model_copy(update={"mesh": "data=2,grid=2"})
    run_many({**kinds, "2-4": whole, "1-4": whole, "lean-4": lean}, folder, 4)
    return folder


def lean_of(settings):
    return settings.model_copy(update={"optimizer": "adamw_pair_8bit", "epochs": 4})


def assert_close(found, expected, rel):
    for column in COLUMNS:
        pairs = [[row[column] for row in read_metrics(folder)] for folder in (found, expected)]
        assert pairs[0] == pytest.approx(pairs[1], rel=rel), column


def test_curves_are_those_of_one_process_and_checkpoints_move(settings, on_one, on_two, on_four, tmp_path):
    """Twenty-one steps on 2 processes; its middle goes on on 4 and on 1; all kinds of models on 4."""
    assert_close(on_two, on_one, 1e-4)
    moved = move(on_two, tmp_path / "2-1", checkpoints(on_two)[2])
    train(settings, moved, quiet=True)
    for folder in (moved, on_four / "2-4"):
        assert_close(folder, on_two, 1e-4)
    for name in CASES:
        alone = config_of(settings, name).model_copy(update={"epochs": 3, "mesh": None})
        train(alone, tmp_path / f"{name}-one", quiet=True)
        assert_close(on_four / name, tmp_path / f"{name}-one", 1e-4)
    whole = load(on_four / "2-4" / "model.safetensors")
    names = [name for name, _ in load(on_one / "model.safetensors").named_parameters()]
    assert [name for name, _ in whole.named_parameters()] == names


def checkpoints(run):
    return sorted(path.name for path in (run / "state").glob("at-*"))


def test_checkpoints_move_between_1_2_and_4_processes_in_both_directions(settings, on_one, on_two, on_four, tmp_path):
    """From 1 to 4, from there to 2 and to 1, from 1 to 2; with 8-bit states from 4 to 1, where random bits differ."""
    third, fifth = checkpoints(on_one)[2], checkpoints(on_one)[4]
    for target in ("1-4-2", "1-4-1"):
        move(on_four / "1-4", tmp_path / target, fifth)
    move(on_one, tmp_path / "1-2", third)
    two = settings.model_copy(update={"mesh": "grid=2"})
    run_many({"1-4-2": two, "1-2": two}, tmp_path, 2)
    train(settings, tmp_path / "1-4-1", quiet=True)
    for folder in (on_four / "1-4", *(tmp_path / name for name in ("1-4-2", "1-4-1", "1-2"))):
        assert_close(folder, on_two, 1e-4)
    move(on_four / "lean-4", tmp_path / "lean-1", checkpoints(on_four / "lean-4")[1])
    train(lean_of(settings), tmp_path / "lean-1", quiet=True)
    assert_close(tmp_path / "lean-1", on_four / "lean-4", 1e-2)


def test_a_killed_process_ends_the_run_and_another_number_goes_on_bit_for_bit(settings, on_two, tmp_path):
    path = tmp_path / "configs.json"
    path.write_text(json.dumps({"killed": settings.model_copy(update={"mesh": "grid=2"}).to_dict()}))
    process = subprocess.Popen(
        [sys.executable, SCRIPT, path, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 200
    while not list((tmp_path / "killed" / "state").glob("at-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(max(_workers(process.pid)), signal.SIGKILL)
    begun = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - begun < 60
    assert process.returncode == 1
    assert "Traceback" not in errors
    assert "SIGKILL" in errors.strip().splitlines()[-1] or "failed" in errors.strip().splitlines()[-1]
    newest = max(path.name for path in (tmp_path / "killed" / "state").glob("at-*"))
    # The same point of the run that nobody killed, on one process from there on.
    unharmed = move(on_two, tmp_path / "unharmed", newest)
    for folder in (tmp_path / "killed", unharmed):
        assert train(settings, folder, quiet=True).status == "finished"
    assert_same_run(tmp_path / "killed", unharmed, bytes_within=1e-3)


def _workers(parent):
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_piece_is_read_without_the_rest(tmp_path):
    """Chunks that do not belong to the piece are destroyed in the file: who reads them fails."""
    path = tmp_path / "chunks.h5"
    with h5py.File(path, "w") as file:
        for split in ("train", "test"):
            for which in "xy":
                values = np.random.default_rng(0).standard_normal((3, 2, 8, 6)).astype(np.float32)
                file.create_dataset(f"{split}/{which}", data=values, chunks=(1, 2, 4, 6), compression="gzip")
    whole = open_dataset(path).train[[2, 0]]
    with h5py.File(path, "r") as file:
        chunks = [file["train/x"].id.get_chunk_info(i) for i in range(6)]
    with open(path, "r+b") as raw:
        for chunk in chunks:
            if chunk.chunk_offset[2] == 4:
                raw.seek(chunk.byte_offset)
                raw.write(b"\0" * chunk.size)
    piece = open_dataset(path).train.piece(((0, 4), (1, 6)))
    assert piece.grid == (4, 5)
    for found, expected in zip(piece[[2, 0]], whole, strict=True):
        assert (found == expected[:, :, :4, 1:]).all()
    with pytest.raises(InputError, match="damaged"):
        open_dataset(path).train[[0]]


def test_pieces_of_every_kind_of_source_are_those_of_whole_samples():
    """Arrays that can read a piece and arrays that cannot, stacked, joined, cut to rows, channels anywhere."""
    rng = np.random.default_rng(0)

    class Plain:
        def __init__(self, shape):
            self.values = rng.standard_normal(shape).astype(np.float32)
            self.shape = shape

        def read(self, indices):
            return self.values[indices]

    fields = WithChannel(Plain((5, 6, 4)))
    pair = ArrayPair(Stacked((fields, ChannelsFirst(Plain((5, 6, 4, 2)), 1))), fields)
    source = Joined((Rows(pair, 1, 4), Resampled(pair, Box((1.0, 1.0)))))
    indices, bounds = np.array([6, 0, 2]), ((2, 5), (0, 3))
    for found, whole in zip(PieceSource(source, bounds).read(indices), source.read(indices), strict=True):
        assert (found == whole[:, :, 2:5, :3]).all()
    assert PieceSource(source, bounds).shapes == ((8, 3, 3, 3), (8, 1, 3, 3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mesh": "grid=2", "loss": "h1"}, "loss h1 does not work with mesh"),
        ({"mesh": "grid=2", "strategy": "fsdp"}, "fsdp replaces the parameters whose gradients a mesh sums"),
        ({"mesh": "grid=2", "strategy": "ddp"}, "strategy does not work with mesh"),
        ({"mesh": "grid=2", "test_resolutions": (5,)}, "test_resolutions does not work"),
        ({"mesh": "grid=11"}, "too few for 11 processes"),
        ({"mesh": "grid=2", "model": "UNet", "arguments": {}}, "cannot be applied to pieces"),
    ],
)
def test_what_a_mesh_cannot_do_is_said_before_anything_starts(settings, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        train(settings.model_copy(update=changes), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_what_a_program_holds_is_not_shared_on_a_mesh(settings, tmp_path):
    values = {**settings.to_dict(), "mesh": "grid=2", "optimizer": "adamw"}
    given = (np.ones((8, 1, 10, 12), np.float32), np.ones((8, 1, 10, 12), np.float32))
    with pytest.raises(InputError, match="data of a program does not work with mesh"):
        train(run_dir=tmp_path / "run", **{**values, "data": TensorDataset(*map(torch.from_numpy, given))})
    with pytest.raises(InputError, match="a built model does not work with mesh"):
        train(run_dir=tmp_path / "run", **{**values, "arguments": {}, "model": torch.nn.Conv2d(1, 1, 1)})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("text", ["grid", "data=0", "grid=2,grid=2", "data=2x2", "model=3", "grid=2x2x2x2"])
def test_a_mesh_that_is_none_is_refused_in_one_line(settings, text):
    with pytest.raises(InputError, match="mesh"):
        TrainConfig(**{**settings.to_dict(), "mesh": text})


def test_a_mesh_says_what_it_is():
    shape = MeshShape.parse("grid=2x3, data=4")
    assert (shape.data, shape.grid, shape.processes, shape.axes) == (4, (2, 3), 24, (0, 1))
    assert str(shape) == "data=4,grid=2x3"
    assert MeshShape.parse(str(shape)) == shape
