"""A full disk, and what writes to it: HDF5 never sees the error, the user does, in one line."""

import errno
import os
import resource

import h5py
import numpy as np
import pytest
import torch
from full_disks import run_here

from halfwave.data import CloudWriter, FieldWriter, open_dataset
from halfwave.data.h5_writing import Sink, plan_chunks, written_h5
from halfwave.errors import InputError


@pytest.fixture
def size_limit():
    """A function that limits the size of files that this process writes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write_fields(path):
    with FieldWriter(path) as writer:
        for _ in range(40):
            writer.append(torch.rand(8, 1, 32, 32))


def write_clouds(path):
    with CloudWriter(path) as writer:
        for _ in range(40):
            writer.append(torch.rand(3000, 3), torch.rand(3000))


@pytest.mark.parametrize(("name", "write"), [("y.h5", write_fields), ("y.npy", write_fields), ("c.h5", write_clouds)])
@pytest.mark.parametrize("size", [300, 5_000, 100_000])
def test_a_size_limit_is_one_line_and_the_earlier_file_is_whole(tmp_path, size_limit, name, write, size):
    path = tmp_path / name
    path.write_bytes(b"the user's")
    size_limit(size)
    with pytest.raises(InputError, match=rf"^cannot write .*{name}: (File too large|not all bytes)"):
        write(path)
    assert path.read_bytes() == b"the user's"
    assert os.listdir(tmp_path) == [name]


def test_a_sink_reads_back_what_could_not_be_written(tmp_path, monkeypatch):
    sink = Sink(tmp_path / "file")
    sink.write(b"abcdef")

    class Full:
        def __getattr__(self, name):
            return getattr(file, name)

        def write(self, _):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = sink._file
    monkeypatch.setattr(sink, "_file", Full())
    sink.seek(4)
    assert sink.write(b"XYZ") == 3
    sink.seek(2)
    found = bytearray(5)
    sink.readinto(found)
    assert bytes(found) == b"cdXYZ"
    with pytest.raises(OSError, match="No space left"):
        sink.check()
    file.close()


def test_every_dataset_and_its_header_carry_checksums(tmp_path):
    path = tmp_path / "d.h5"
    x = np.random.default_rng(0).random((5, 2, 40, 40)).astype(np.float32)
    with written_h5(path) as writer:
        writer.describe({"name": "checked"})
        for split in ("train", "test"):
            writer.put(f"{split}/x", x)
            writer.put(f"{split}/y", x)
    with h5py.File(path) as file:
        assert all(file[key].fletcher32 for key in ("train/x", "test/y"))
        np.testing.assert_array_equal(file["train/x"][:], x)
    content = path.read_bytes()
    # 0x0000 for 0xffff, which Fletcher's sum alone does not see.
    at = content.index(x[3].tobytes()[:4000]) + 400
    for changed in (b"\x00\x00", b"\xff\xff"):
        path.write_bytes(content[:at] + changed + content[at + 2 :])
        with pytest.raises(InputError, match="cannot be read, the file is truncated or damaged"):
            open_dataset(path).train[:]


@pytest.mark.parametrize("shape", [(1000, 1, 12, 12), (8, 3, 1024, 1024), (4, 20, 1, 64, 64, 64), (0, 3), (5,), (7, 0)])
def test_chunks_are_neither_tiny_nor_huge(shape):
    chunks = plan_chunks(shape, 4)
    assert len(chunks) == len(shape)
    assert 4 * np.prod(chunks) <= 1 << 20
    assert all(1 <= chunk <= max(1, size) for chunk, size in zip(chunks, shape, strict=True))


@pytest.mark.parametrize("name", ["fields, forced", "prediction"])
def test_commands_under_a_size_limit(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    said = run_here(name, "size limit", tmp_path)
    assert not said["raw"]
    assert not said["altered"]
    assert said["said"][0].endswith(
        "File too large; finished samples are kept" if "fields" in name else "File too large"
    )
