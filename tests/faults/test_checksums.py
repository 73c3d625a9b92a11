"""Which files carry checksums, who says so, and that what they guard is found changed."""

import json

import h5py
import numpy as np
import pytest
from specimens import SPECIMENS, fields, read_dataset, write_npz, write_own_grid, write_pt, write_unchecked_own

from halfwave.data import Placement, carries_checksums, open_any, open_dataset
from halfwave.domains import Torus
from halfwave.errors import InputError
from halfwave.training.config import TrainConfig
from halfwave.training.run_directory import start_record

DATA = [specimen for specimen in SPECIMENS if specimen.read is read_dataset]


@pytest.mark.parametrize("specimen", DATA, ids=lambda specimen: specimen.name)
def test_a_file_is_known_to_carry_checksums(specimen, tmp_path):
    assert carries_checksums(specimen.make(tmp_path)) == specimen.checked


@pytest.mark.parametrize(("write", "carried"), [(write_own_grid, True), (write_unchecked_own, False)])
def test_the_record_of_a_run_says_so_and_nothing_else_does(tmp_path, write, carried):
    write(tmp_path / "d.h5")
    dataset = open_any(tmp_path / "d.h5")
    config = TrainConfig(data=str(tmp_path / "d.h5"), model="FNO", arguments={"n_modes": [4, 4], "hidden_channels": 4})
    (tmp_path / "run").mkdir()
    start_record(tmp_path / "run", config, Placement(Torus((1.0, 1.0))))
    assert json.loads((tmp_path / "run" / "config.json").read_text())["checksums"] is carried
    assert "checksum" not in f"{dataset.metadata}{dataset.understood()}"


def test_every_byte_of_the_numbers_is_guarded(tmp_path):
    """In a chunk of ours, in a mapped array of .npz and in one of .pt, each byte of one sample in turn."""
    for write in (write_own_grid, write_npz, write_pt):
        path = tmp_path / write.__name__
        write(path)
        content, wanted = path.read_bytes(), fields()[0][1].tobytes()
        start = content.index(wanted)
        for at in range(start, start + len(wanted), 7):
            path.write_bytes(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :])
            with pytest.raises(InputError, match=r"damaged"):
                open_dataset(path).train[:]


def test_files_of_before_checksums_read_the_same(tmp_path):
    for write in (write_own_grid, write_unchecked_own):
        write(tmp_path / write.__name__)
    new, old = (open_dataset(tmp_path / write.__name__) for write in (write_own_grid, write_unchecked_own))
    for split in ("train", "test"):
        for ours, before in zip(getattr(new, split)[:], getattr(old, split)[:], strict=True):
            np.testing.assert_array_equal(ours, before)


def test_what_was_read_of_a_sample_is_what_others_read(tmp_path):
    """h5py alone, without this library, reads the same numbers and the same description."""
    write_own_grid(tmp_path / "d.h5")
    with h5py.File(tmp_path / "d.h5") as file:
        np.testing.assert_array_equal(file["train/x"][:, 0], fields()[0][:4])
        assert json.loads(file.attrs["metadata"])["name"] == "specimen"
