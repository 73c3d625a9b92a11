"""Files made to do harm, each by a function: claims without content, bombs, links out of the file, wrong kinds.

`CRAFTED[name]` writes one into a folder and returns what to open; `READS` are those that are harmless and must be read
right, `OTHERWISE` those that are read by something else than `open_any`.
"""

import bz2
import functools
import io
import json
import os
import pickle
import socket
import struct
import zipfile
import zlib

import h5py
import numpy as np
import scipy.io
import scipy.sparse
import torch
from guarded import run_trials
from specimens import (
    GRID,
    N,
    digest,
    fields,
    read_dataset,
    read_inputs,
    read_model,
    read_run_config,
    read_surface,
    write_meshes,
    write_npz,
    write_own_clouds,
    write_own_grid,
    write_ply,
    write_pt,
    write_the_well,
)

from halfwave.data import ReadOptions, open_any, open_clouds
from halfwave.errors import InputError

CRAFTED, READS, OTHERWISE = {}, set(), {}
AS_IT_SHOULD_BE = "as it should be"
BIG = 10**12
BOMB = 2 * 2**30
"""Bytes that a bomb unpacks to."""


def crafted(name, read=read_dataset, harmless=False):
    def register(write):
        assert name not in CRAFTED, name
        CRAFTED[name] = write
        if read is not read_dataset:
            OTHERWISE[name] = read
        if harmless:
            READS.add(name)
        return write

    return register


def run_crafted(folder, names=None):
    """Write and read each of the files in a watched process.

    As it should be is `refused`, and for harmless ones `equal`; `altered` counts those that were read and should not
    have been, `raw` also the harmless ones that were refused.
    """
    chosen = list(names or CRAFTED)
    paths = [_write(folder / f"{number:03d}", name) for number, name in enumerate(chosen)]

    def trial(number):
        name = chosen[number]
        try:
            OTHERWISE.get(name, read_dataset)(paths[number])
        except InputError as error:
            if name in READS:
                raise AssertionError(f"{name} is harmless: {error}") from error
            raise
        return AS_IT_SHOULD_BE if name in READS else f"{name} was read"

    outcome = run_trials(f"crafted files ({len(chosen)})", len(chosen), trial, AS_IT_SHOULD_BE)
    outcome.notes += [f"{chosen[number]} was read" for number in outcome.altered_trials]
    return outcome


def _write(folder, name):
    folder.mkdir()
    return CRAFTED[name](folder)


# HDF5: a file of ours, with something done to it


def own(folder, change):
    """A file in our layout without checksums, changed by a function of the open file."""
    path = folder / "data.h5"
    x, y = fields()
    with h5py.File(path, "w") as file:
        file.attrs["metadata"] = json.dumps({"name": "crafted"})
        for split, part in (("train", slice(0, 4)), ("test", slice(4, 6))):
            file[f"{split}/x"], file[f"{split}/y"] = x[part, None], y[part, None]
        change(file)
    return path


def replaced(key, **create):
    """`key` made anew."""

    def change(file):
        del file[key]
        return file.create_dataset(key, **create)

    return change


def h5_case(name, change, harmless=False):
    crafted(name, harmless=harmless)(lambda folder: own(folder, change))


def clouds_case(name, key, values):
    @crafted(name)
    def write(folder):
        write_own_clouds(folder / "data.h5")
        with h5py.File(folder / "data.h5", "r+") as file:
            del file[key]
            file[key] = values
        return folder / "data.h5"


h5_case("h5 claims 1e12 elements", replaced("train/x", shape=(BIG, 1, 9, 8), dtype="f4"))
h5_case("h5 claims 1e12 elements in chunks", replaced("train/x", shape=(BIG, 1, 9, 8), dtype="f4", chunks=(1, 1, 9, 8)))
h5_case(
    "h5 claims 1e12 elements in packed chunks",
    replaced("train/x", shape=(BIG, 1, 9, 8), dtype="f4", chunks=(64, 1, 9, 8), compression="gzip"),
)
h5_case("h5 claims 1e12 elements of a sample", replaced("train/x", shape=(4, 1, 10**6, 10**6), dtype="f4"))
h5_case("h5 fill values of 2 GB", replaced("train/x", shape=(4, 1, 11585, 11585), dtype="f4", fillvalue=1.0))
h5_case("h5 never written, as small as the rest", replaced("train/x", shape=(4, 1, 9, 8), dtype="f4"))
h5_case(
    "h5 chunks of which one is there",
    lambda f: replaced("train/x", shape=(4, 1, 9, 8), dtype="f4", chunks=(1, 1, 9, 8))(f).__setitem__(0, 1.0),
)


def _packed_zeros(size):
    """A deflate stream of `size` zero bytes, made of the same block over and over; whole MB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * (size >> 20) + b"\x03\x00"


def _zlib_zeros(size):
    sum_of_zeros = 1 | ((size % 65521) << 16)
    return b"\x78\x9c" + _packed_zeros(size) + struct.pack(">I", sum_of_zeros)


@crafted("h5 compression bomb, many chunks")
def _(folder):
    def change(file):
        x = replaced("train/x", shape=(32, 1, 4096, 4096), dtype="f4", chunks=(1, 1, 4096, 4096), compression="gzip")(
            file
        )
        for i in range(32):
            x.id.write_direct_chunk((i, 0, 0, 0), _zlib_zeros(64 << 20))

    return own(folder, change)


@crafted("h5 compression bomb, one chunk")
def _(folder):
    def change(file):
        shape = (4, 1, 8192, 16384)
        x = replaced("train/x", shape=shape, dtype="f4", chunks=shape, compression="gzip")(file)
        x.id.write_direct_chunk((0, 0, 0, 0), _zlib_zeros(4 * 4 * 8192 * 16384))

    return own(folder, change)


@crafted("h5 chunk that packs to more than it says")
def _(folder):
    def change(file):
        x = replaced("train/x", shape=(4, 1, 9, 8), dtype="f4", chunks=(4, 1, 9, 8), compression="gzip")(file)
        x.id.write_direct_chunk((0, 0, 0, 0), _zlib_zeros(64 << 20))

    return own(folder, change)


@crafted("h5 chunk that skips its filters")
def _(folder):
    def change(file):
        x = replaced("train/x", shape=(4, 1, 9, 8), dtype="f4", chunks=(4, 1, 9, 8), compression="gzip")(file)
        x.id.write_direct_chunk((0, 0, 0, 0), b"short", filter_mask=1)

    return own(folder, change)


@crafted("h5 filter that nobody has")
def _(folder):
    path = own(folder, lambda file: file.__delitem__("train/x"))
    with h5py.File(path, "r+") as file:
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_chunk((4, 1, 9, 8))
        settings.set_filter(31999, h5py.h5z.FLAG_OPTIONAL, ())
        space = h5py.h5s.create_simple((4, 1, 9, 8))
        made = h5py.h5d.create(file["train"].id, b"x", h5py.h5t.NATIVE_FLOAT, space, settings)
        made.write_direct_chunk((0, 0, 0, 0), bytes(4 * 4 * 72))
    return path


def _virtual(file, source):
    layout = h5py.VirtualLayout(shape=(4, 1, 9, 8), dtype="f4")
    layout[:] = h5py.VirtualSource(source, "x", shape=(4, 1, 9, 8))
    del file["train/x"]
    file["train"].create_virtual_dataset("x", layout, fillvalue=0.0)


h5_case("h5 virtual dataset, source missing", lambda file: _virtual(file, "nowhere.h5"))


@crafted("h5 virtual dataset, source there")
def _(folder):
    with h5py.File(folder / "source.h5", "w") as source:
        source["x"] = np.ones((4, 1, 9, 8), np.float32)
    return own(folder, lambda file: _virtual(file, str(folder / "source.h5")))


h5_case("h5 virtual dataset of its own file", lambda file: _virtual(file, "."))
h5_case(
    "h5 external storage in a system file",
    replaced("train/x", shape=(4, 1, 2, 2), dtype="f4", external=[("/etc/passwd", 0, 64)]),
)
h5_case(
    "h5 external storage that is not there",
    replaced("train/x", shape=(4, 1, 9, 8), dtype="f4", external=[("nowhere.bin", 0, 4 * 4 * 72)]),
)


def linked(key, link):
    def change(file):
        del file[key]
        file[key] = link

    return change


@crafted("h5 link to another file")
def _(folder):
    write_own_grid(folder / "other.h5")
    return own(folder, linked("train", h5py.ExternalLink(str(folder / "other.h5"), "/train")))


@crafted("h5 link to a FIFO")
def _(folder):
    os.mkfifo(folder / "pipe")
    return own(folder, linked("train/x", h5py.ExternalLink(str(folder / "pipe"), "/x")))


h5_case("h5 link to a file that is not there", linked("test", h5py.ExternalLink("nowhere.h5", "/test")))
h5_case("h5 link to nothing", linked("train/x", h5py.SoftLink("/nowhere")))
h5_case("h5 link to itself", linked("train/x", h5py.SoftLink("/train/x")))
h5_case(
    "h5 links in a ring",
    lambda f: (linked("train/x", h5py.SoftLink("/train/y"))(f), linked("train/y", h5py.SoftLink("/train/x"))(f)),
)
h5_case("h5 group that holds itself", lambda file: file["train"].__setitem__("again", file["train"]), harmless=True)
h5_case(
    "h5 link within the file",
    lambda f: (f.move("train/x", "kept"), f["train"].__setitem__("x", h5py.SoftLink("/kept"))),
    harmless=True,
)
h5_case("h5 other members that are dangling", lambda f: f.__setitem__("more", h5py.SoftLink("/nowhere")), harmless=True)


@crafted("h5 dangling link where groups are looked through")
def _(folder):
    with h5py.File(folder / "data.h5", "w") as file:
        file["0000/data"], file["0001"] = np.ones((2, 9, 8, 1), np.float32), h5py.SoftLink("/0002")
    return folder / "data.h5"


h5_case("h5 null dataspace", replaced("train/x", data=h5py.Empty("f4")))
h5_case("h5 scalar", replaced("train/x", data=3.0))
h5_case("h5 text", replaced("train/x", data=["a", "b", "c", "d"]))
h5_case("h5 compound", replaced("train/x", shape=(4, 1, 9, 8), dtype=[("a", "f4")]))
h5_case("h5 array type", replaced("train/x", shape=(4, 1), dtype=np.dtype(("f4", (9, 8)))))
h5_case("h5 variable length", replaced("train/x", shape=(4, 1, 9, 8), dtype=h5py.vlen_dtype("f4")))
h5_case("h5 references", replaced("train/x", shape=(4, 1, 9, 8), dtype=h5py.ref_dtype))
h5_case("h5 complex", replaced("train/x", data=np.ones((4, 1, 9, 8), np.complex64)))
h5_case("h5 opaque", replaced("train/x", shape=(4, 1, 9, 8), dtype="V7"))
h5_case("h5 rank 1", replaced("train/x", data=np.ones(4, np.float32)))
h5_case("h5 rank 9", replaced("train/x", data=np.ones((4, *[1] * 8), np.float32)))
h5_case("h5 rank 32", replaced("train/x", data=np.ones((4, *[1] * 31), np.float32)))
h5_case("h5 no samples", replaced("train/x", data=np.ones((0, 1, 9, 8), np.float32)))
h5_case("h5 no points", replaced("train/x", data=np.ones((4, 1, 0, 8), np.float32)))
h5_case("h5 counts differ", replaced("train/x", data=np.ones((3, 1, 9, 8), np.float32)))
h5_case("h5 grids differ", replaced("train/x", data=np.ones((4, 1, 9, 7), np.float32)))
h5_case("h5 NaN", replaced("train/x", data=np.full((4, 1, 9, 8), np.nan, np.float32)))
h5_case("h5 infinity", replaced("test/y", data=np.full((2, 1, 9, 8), np.inf, np.float32)))
h5_case("h5 beyond float32", replaced("test/y", data=np.full((2, 1, 9, 8), 1e300)))
h5_case("h5 group for a dataset", lambda f: (f.__delitem__("train/x"), f.create_group("train/x")))
h5_case("h5 dataset for a group", lambda f: (f.__delitem__("train"), f.__setitem__("train", np.ones(4))))
h5_case("h5 no test split", lambda file: file.__delitem__("test"))
h5_case("h5 nothing at all", lambda file: (file.__delitem__("train"), file.__delitem__("test")))


def described(value):
    return lambda file: file.attrs.__setitem__("metadata", value)


h5_case("metadata no JSON", described("{"))
h5_case("metadata nested 50,000 deep", described("[" * 50_000))
h5_case("metadata a list", described("[1, 2]"))
h5_case("metadata a number", described(7))
h5_case("metadata an array", described(np.arange(5)))
h5_case("metadata of another encoding", described(np.bytes_(b"\xff\xfe{")))
h5_case("metadata null", described(h5py.Empty("f4")))
h5_case("domain unknown", described(json.dumps({"domain": {"kind": "klein bottle"}})))
h5_case("domain a number", described(json.dumps({"domain": 5})))
h5_case("domain with a side of -1", described(json.dumps({"domain": {"name": "torus", "lengths": [-1, 1]}})))
h5_case("domain with a side of NaN", described('{"domain": {"name": "torus", "lengths": [NaN, 1]}}'))
h5_case("domain of one side for two axes", described(json.dumps({"domain": {"name": "torus", "lengths": [1.0]}})))

clouds_case("offsets that are floats", "train/offsets", np.array([0.0, 20.0, 37.0]))
clouds_case("offsets unsigned and going down", "train/offsets", np.array([0, 40, 37], np.uint64))
clouds_case("offsets beyond int64", "train/offsets", np.array([0, 2**64 - 1, 37], np.uint64))
clouds_case("offsets negative", "train/offsets", np.array([0, -5, 37]))
clouds_case("offsets beyond the points", "train/offsets", np.array([0, 20, 38]))
clouds_case("offsets in two axes", "train/offsets", np.array([[0, 20, 37]]))
clouds_case("offsets of nothing", "train/offsets", np.zeros(0, np.int64))
clouds_case("offsets of one number", "train/offsets", np.zeros(1, np.int64))
clouds_case("offsets that begin at 1", "train/offsets", np.array([1, 20, 37]))
clouds_case("offsets null", "train/offsets", h5py.Empty("i8"))
clouds_case("clouds in two dimensions", "train/points", np.ones((37, 2), np.float32))
clouds_case("clouds with fewer normals", "train/normals", np.ones((36, 3), np.float32))
clouds_case("clouds with parameters of one", "train/parameters", np.ones((1, 1), np.float32))
clouds_case("clouds with NaN", "test/pressure", np.full(37, np.nan, np.float32))


@crafted("clouds that claim 1e12 points", read=lambda path: digest(*vars(open_clouds(path)[0]).values()))
def _(folder):
    write_own_clouds(folder / "data.h5")
    with h5py.File(folder / "data.h5", "r+") as file:
        del file["test/points"]
        file.create_dataset("test/points", shape=(BIG, 3), dtype="f4")
    return folder / "data.h5"


def well_case(name, change, harmless=False):
    @crafted(name, harmless=harmless)
    def write(folder):
        write_the_well(folder / "data.h5")
        with h5py.File(folder / "data.h5", "r+") as file:
            change(file)
        return folder / "data.h5"


well_case("the well, coordinates of 1e12", replaced("dimensions/x", shape=(BIG,), dtype="f8"), harmless=True)
well_case("the well, coordinates of text", replaced("dimensions/x", data=["a"] * 9), harmless=True)
well_case("the well, axes a number", lambda file: file["dimensions"].attrs.__setitem__("spatial_dims", 3))
well_case(
    "the well, variation as text",
    lambda f: f["t0_fields/density"].attrs.__setitem__("dim_varying", "yes"),
    harmless=True,
)
well_case("the well, a dataset for a group", lambda f: f.__setitem__("t1_fields", np.ones(3)))
well_case("the well, fields that differ", lambda f: f.__setitem__("t0_fields/other", np.ones((6, 2, 5, 5))))
well_case("the well, claims 1e12", replaced("t0_fields/density", shape=(BIG, 2, 9, 8), dtype="f4"))


@crafted("PDEBench seeds of two shapes")
def _(folder):
    with h5py.File(folder / "data.h5", "w") as file:
        file["0/data"], file["1/data"] = np.ones((2, 9, 8, 1)), np.ones((2, 9, 7, 1))
    return folder / "data.h5"


@crafted("PDEBench of no times")
def _(folder):
    with h5py.File(folder / "data.h5", "w") as file:
        file["tensor"] = np.ones((6, 0, 9, 8))
    return folder / "data.h5"


@crafted("HDF5 signature alone")
def _(folder):
    (folder / "data.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    return folder / "data.h5"


# .npy and .npz


def npy_bytes(header, data=b"", version=(1, 0), length=None):
    head = header.encode("latin1")
    size = struct.pack("<H" if version == (1, 0) else "<I", len(head) if length is None else length)
    return b"\x93NUMPY" + bytes(version) + size + head + data


def npy_case(name, content):
    @crafted(name, read=read_inputs)
    def write(folder):
        (folder / "data.npy").write_bytes(content)
        return folder / "data.npy"


_SHAPED = "{{'descr': '<f4', 'fortran_order': False, 'shape': {}}}\n"
npy_case("npy claims 1e12", npy_bytes(_SHAPED.format((BIG, 9)), bytes(64)))
npy_case("npy claims 1e40", npy_bytes(_SHAPED.format((10**40, 9)), bytes(64)))
npy_case("npy of a negative size", npy_bytes(_SHAPED.format((-4, -9)), bytes(144)))
npy_case("npy of nothing", npy_bytes(_SHAPED.format((0, 9))))
npy_case("npy of a size that is no number", npy_bytes(_SHAPED.format("('a', 2)"), bytes(64)))
npy_case("npy with an open bracket", npy_bytes("{'descr': (\n", bytes(64)))
npy_case("npy with a header of code", npy_bytes("__import__('os').abort()\n", bytes(64)))
npy_case("npy nested deep", npy_bytes("(" * 9000 + "\n", bytes(64)))
npy_case("npy with a header of 4 GB", npy_bytes("{", version=(2, 0), length=2**32 - 1))
npy_case("npy of version 9", npy_bytes(_SHAPED.format((4, 9)), bytes(144), version=(9, 0)))
npy_case(
    "npy of objects", npy_bytes("{'descr': '|O', 'fortran_order': False, 'shape': (4, 9)}\n", pickle.dumps([1] * 36))
)
npy_case("npy of text", npy_bytes("{'descr': '<U9', 'fortran_order': False, 'shape': (4, 9)}\n", bytes(4 * 9 * 36)))
npy_case(
    "npy of records", npy_bytes("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4, 9)}\n", bytes(144))
)
npy_case(
    "npy of an unknown type", npy_bytes("{'descr': '<q99', 'fortran_order': False, 'shape': (4, 9)}\n", bytes(144))
)
npy_case("npy too short", npy_bytes(_SHAPED.format((4, 9, 8)), bytes(144)))


def zip_entry(name, packed, size, crc, method=8):
    """One entry of a zip archive with whatever it says about itself, and the end of the archive."""
    raw = name.encode()
    fixed = struct.pack("<HHHHHIIIHH", 20, 0, method, 0, 33, crc, len(packed), size, len(raw), 0)
    local = b"PK\x03\x04" + fixed + raw + packed
    central = b"PK\x01\x02" + struct.pack("<H", 20) + fixed[:-2] + struct.pack("<HHHHII", 0, 0, 0, 0, 0, 0) + raw
    return local, central


def zip_file(path, entries):
    body, directory = b"", b""
    for local, central in entries:
        directory += central[:42] + struct.pack("<I", len(body)) + central[46:]
        body += local
    path.write_bytes(
        body
        + directory
        + b"PK\x05\x06"
        + struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), len(directory), len(body), 0)
    )
    return path


def array_bytes(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def stored(name, content, crc=None):
    return zip_entry(name, content, len(content), zlib.crc32(content) if crc is None else crc, method=0)


def bomb_header(size):
    text = _SHAPED.format((4, size // 4 // 4 - 32)).strip()
    return npy_bytes(text + " " * (128 - 10 - len(text) - 1) + "\n")


def npz_case(name, entries, harmless=False):
    @crafted(name, harmless=harmless)
    def write(folder):
        return zip_file(folder / "data.npz", entries())


X = np.ones((6, *GRID), np.float32)


def _deflated(content):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


def _bomb():
    head = bomb_header(BOMB)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH) + _packed_zeros(BOMB)
    return zip_entry("x.npy", packed, len(head) + 4 * 4 * (BOMB // 16 - 32), 0)


npz_case("npz zip bomb", lambda: [_bomb(), stored("y.npy", array_bytes(X))])
npz_case(
    "npz zip bomb of both",
    lambda: [_bomb(), (lambda e: (e[0].replace(b"x.npy", b"y.npy", 1), e[1].replace(b"x.npy", b"y.npy")))(_bomb())],
)
npz_case(
    "npz that says less than it unpacks to",
    lambda: [zip_entry("x.npy", _deflated(array_bytes(X)), 200, 0), stored("y.npy", array_bytes(X))],
)
npz_case(
    "npz that says more than it holds",
    lambda: [zip_entry("x.npy", array_bytes(X), 2**31, 0, method=0), stored("y.npy", array_bytes(X))],
)
npz_case("npz with a wrong CRC", lambda: [stored("x.npy", array_bytes(X), crc=1), stored("y.npy", array_bytes(X))])
npz_case(
    "npz with a wrong CRC, compressed",
    lambda: [zip_entry("x.npy", _deflated(array_bytes(X)), len(array_bytes(X)), 1), stored("y.npy", array_bytes(X))],
)
npz_case(
    "npz whose header claims more",
    lambda: [stored("x.npy", npy_bytes(_SHAPED.format((BIG, 9, 8)), bytes(288))), stored("y.npy", array_bytes(X))],
)
npz_case("npz of no arrays", lambda: [stored("x.npy", b"hello"), stored("y.npy", b"world")])
npz_case("npz of empty entries", lambda: [stored("x.npy", b""), stored("y.npy", b"")])
npz_case("npz with another name", lambda: [stored("../../x.npy", array_bytes(X)), stored("y.npy", array_bytes(X))])
npz_case(
    "npz of an unknown method", lambda: [zip_entry("x.npy", b"abc", 3, 0, method=99), stored("y.npy", array_bytes(X))]
)
npz_case("npz without entries", list)
npz_case(
    "npz of objects",
    lambda: [stored("x.npy", array_bytes(np.array([None, {}], dtype=object))), stored("y.npy", array_bytes(X))],
)
npz_case(
    "npz in time that claims more",
    lambda: [stored("trajectory.npy", npy_bytes(_SHAPED.format((BIG, 2, 1, 9, 8)), bytes(64)))],
)
npz_case("npz in time of one axis", lambda: [stored("trajectory.npy", array_bytes(np.ones(5, np.float32)))])
npz_case(
    "npz as it should be", lambda: [stored("x.npy", array_bytes(X)), stored("y.npy", array_bytes(X))], harmless=True
)


@crafted("npz bz2 bomb")
def _(folder):
    head = bomb_header(BOMB)
    packed = zip_entry("x.npy", bz2.compress(head + bytes(1 << 20)), len(head) + BOMB - 512, 0, method=12)
    return zip_file(folder / "data.npz", [packed, stored("y.npy", array_bytes(X))])


@crafted("npz with a password")
def _(folder):
    write_npz(folder / "data.npz")
    content = bytearray((folder / "data.npz").read_bytes())
    at = content.index(b"PK\x01\x02") + 8
    content[at] |= 1
    (folder / "data.npz").write_bytes(content)
    return folder / "data.npz"


# .pt


def pt_case(name, content, harmless=False, zipped=True):
    @crafted(name, harmless=harmless)
    def write(folder):
        torch.save(content(), folder / "data.pt", _use_new_zipfile_serialization=zipped)
        return folder / "data.pt"


class Call:
    """Pickles as a call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


Y = torch.ones(6, *GRID)
pt_case("pt expanded to 1e12", lambda: {"x": torch.ones(1).expand(10**6, 1000, 1000), "y": Y})
pt_case(
    "pt expanded to 2 GB", lambda: {"x": torch.ones(1).expand(6, 9000, 9000), "y": torch.ones(1).expand(6, 9000, 9000)}
)
pt_case("pt of strides that overlap", lambda: {"x": torch.arange(100.0).as_strided((6, 9, 8), (1, 1, 1)), "y": Y})
pt_case("pt that asks for gradients", lambda: {"x": torch.ones(6, *GRID, requires_grad=True), "y": Y}, harmless=True)
pt_case("pt of parameters", lambda: {"x": torch.nn.Parameter(torch.ones(6, *GRID)), "y": Y}, harmless=True)
pt_case("pt that runs a command", lambda: {"x": Call(os.system, "touch /tmp/halfwave-was-here"), "y": Y})
pt_case("pt with a byte array of 2 GB", lambda: {"x": Call(bytearray, BOMB), "y": Y})
pt_case("old pt with a byte array of 2 GB", lambda: {"x": Call(bytearray, BOMB), "y": Y}, zipped=False)
pt_case("old pt that runs a command", lambda: {"x": Call(os.system, "true"), "y": Y}, zipped=False)
pt_case("pt with a tensor made by its size", lambda: {"x": Call(torch.Tensor, BOMB // 4), "y": Y})
pt_case("pt with a set", lambda: {"x": {1, 2}, "y": Y})
pt_case("pt sparse", lambda: {"x": torch.ones(6, *GRID).to_sparse(), "y": Y})
pt_case("pt sparse of 1e12", lambda: {"x": torch.sparse_coo_tensor([[1], [1], [1]], [1.0], (10**4,) * 3), "y": Y})
pt_case("pt without storage", lambda: {"x": torch.ones(6, *GRID, device="meta"), "y": Y})
pt_case("pt complex", lambda: {"x": torch.ones(6, *GRID) * 1j, "y": Y})
pt_case("pt quantized", lambda: {"x": torch.quantize_per_tensor(Y, 0.1, 0, torch.quint8), "y": Y})
pt_case("pt of numbers", lambda: {"x": 1.0, "y": 2.0})
pt_case("pt a list of numbers", lambda: [1, 2, 3])
pt_case("pt a tensor", lambda: Y)
pt_case("pt with keys that are numbers", lambda: {1: Y, 2: Y})
pt_case("pt a list in itself", lambda: (lambda ring: (ring.append(ring), ring)[1])([]))
pt_case("pt nested 100 deep", lambda: functools.reduce(lambda inner, _: {"x": inner}, range(100), Y))
pt_case("pt in time of one axis", lambda: {"trajectory": torch.ones(5)})
pt_case("pt in time expanded", lambda: {"trajectory": torch.ones(1).expand(6, 2, 1, 9000, 9000)})
pt_case("cars without pressure", lambda: [{"vertices": torch.ones(5, 3)}] * 3)
pt_case("cars of text", lambda: [{"vertices": "a", "press": "b"}] * 3)
pt_case(
    "cars in two dimensions",
    lambda: [{"vertices": torch.ones(5, 2), "press": torch.ones(5), "vertex_normals": torch.ones(5, 2)}] * 3,
)
pt_case(
    "cars expanded",
    lambda: (
        [{"vertices": torch.ones(1).expand(10**9, 3), "press": torch.ones(5), "vertex_normals": torch.ones(5, 3)}] * 3
    ),
)
pt_case(
    "cars with a distance of one axis",
    lambda: (
        [
            {
                "vertices": torch.ones(5, 3),
                "press": torch.ones(5),
                "distance": torch.ones(4),
                "query_points": torch.ones(4, 3),
            }
        ]
        * 3
    ),
)


def _again(folder, change, method=zipfile.ZIP_STORED):
    """A .pt whose entries are written anew, each through `change(name, content)`."""
    write_pt(folder / "first.pt")
    with zipfile.ZipFile(folder / "first.pt") as first, zipfile.ZipFile(folder / "data.pt", "w", method) as archive:
        for name in first.namelist():
            archive.writestr(name, change(name, first.read(name)))
    return folder / "data.pt"


@crafted("pt compressed")
def _(folder):
    return _again(folder, lambda _, content: content, zipfile.ZIP_DEFLATED)


@crafted("pt with shorter storage")
def _(folder):
    return _again(folder, lambda name, content: content[:100] if "/data/" in name else content)


@crafted("pt with a pickle of noise")
def _(folder):
    return _again(folder, lambda name, content: b"\x80\x02" + bytes(range(256)) if name.endswith(".pkl") else content)


@crafted("pt with a changed number")
def _(folder):
    write_pt(folder / "data.pt")
    content = (folder / "data.pt").read_bytes()
    at = content.index(fields()[0][1].tobytes())
    (folder / "data.pt").write_bytes(content[:at] + b"\x00\x00\xff\xff" + content[at + 4 :])
    return folder / "data.pt"


@crafted("a pickle of another program")
def _(folder):
    (folder / "data.pkl").write_bytes(pickle.dumps({"x": np.ones(3), "y": np.ones(3)}))
    return folder / "data.pkl"


@crafted("a pickle of 100,000 opened lists")
def _(folder):
    (folder / "data.pkl").write_bytes(b"\x80\x02" + b"](" * 100_000)
    return folder / "data.pkl"


# MATLAB


def mat_case(name, values, packed=False):
    @crafted(name)
    def write(folder):
        with open(folder / "data.mat", "wb") as file:
            scipy.io.savemat(file, values(), do_compression=packed)
        return folder / "data.mat"


mat_case("mat structures", lambda: {"a": {"b": 1.0}, "u": np.ones((6, 9))})
mat_case("mat cells", lambda: {"a": np.array([1, "b"], dtype=object), "u": np.ones((6, 9))})
mat_case("mat sparse", lambda: {"a": scipy.sparse.eye(6).tocsc(), "u": np.ones((6, 6))})
mat_case("mat complex", lambda: {"a": np.ones((6, 9)) * 1j, "u": np.ones((6, 9))})
mat_case("mat text", lambda: {"a": "hello", "u": np.ones((6, 9))})
mat_case("mat empty", lambda: {"a": np.zeros((0, 9)), "u": np.zeros((0, 9))})
mat_case("mat of other names", lambda: {"p": np.ones((6, 9)), "q": np.ones((6, 9))})


@crafted("mat bomb")
def _(folder):
    """`a` of 2 GB of zeros and a small `u`."""
    with open(folder / "data.mat", "wb") as file:
        scipy.io.savemat(file, {"u": np.ones((512, 2), np.float32)})
    flags, dims = struct.pack("<IIII", 6, 8, 7, 0), struct.pack("<IIIII4x", 5, 12, 512, 1024, 1024)
    inner = flags + dims + struct.pack("<HHI", 1, 1, ord("a")) + struct.pack("<II", 7, BOMB)
    content = struct.pack("<II", 14, len(inner) + BOMB) + inner
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH) + _packed_zeros(BOMB)
    sums = zlib.adler32(content)
    low, high = sums & 0xFFFF, ((sums >> 16) + BOMB * (sums & 0xFFFF)) % 65521
    stream = b"\x78\x9c" + packed + struct.pack(">I", high << 16 | low)
    with open(folder / "data.mat", "ab") as file:
        file.write(struct.pack("<II", 15, len(stream)) + stream)
    return folder / "data.mat"


@crafted("mat claims 1e12")
def _(folder):
    with open(folder / "data.mat", "wb") as file:
        scipy.io.savemat(file, {"a": np.ones((6, 9)), "u": np.ones((6, 9))})
    content = (folder / "data.mat").read_bytes()
    claimed = content.replace(struct.pack("<ii", 6, 9), struct.pack("<ii", 10**6, 10**6))
    (folder / "data.mat").write_bytes(claimed)
    return folder / "data.mat"


@crafted("mat of 4,000,000 empty elements")
def _(folder):
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    (folder / "data.mat").write_bytes(head + struct.pack("<II", 14, 0) * 4_000_000)
    return folder / "data.mat"


def mat_numbers(kind, name=b"a", flags=7, packed=False):
    """An array of 6 x 9 whose numbers are said to be elements of a type."""
    numbers = struct.pack("<II", kind, 216) + np.ones((6, 9), np.float32).tobytes()
    head = struct.pack("<IIII", 6, 8, flags, 0) + struct.pack("<IIII", 5, 8, 6, 9)
    inner = head + struct.pack("<HH4s", 1, len(name), name) + numbers
    element = struct.pack("<II", 14, len(inner)) + inner
    stream = zlib.compress(element) if packed else b""
    return struct.pack("<II", 15, len(stream)) + stream if packed else element


def write_mat(folder, *variables):
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    (folder / "data.mat").write_bytes(head + b"".join(variables) + mat_numbers(7, b"u"))
    return folder / "data.mat"


def mat_of_numbers(name, *variables):
    """scipy looks the type up in a table and dies of one that is not in it."""

    @crafted(name)
    def write(folder):
        return write_mat(folder, *variables)


for kind in (0, 8, 14, 19, 0x27, 0x107, 0xFFFF):
    mat_of_numbers(f"mat of numbers of type {kind}", mat_numbers(kind))
mat_of_numbers("mat, packed, of numbers of type 39", mat_numbers(0x27, packed=True))
mat_of_numbers("mat said to be complex", mat_numbers(7, flags=7 | 1 << 11))
mat_of_numbers("mat of two variables of one name", mat_numbers(7), mat_numbers(7))


@crafted("mat, packed after 2,000 empty blocks, of numbers of type 39")
def _(folder):
    """Of the first bytes nothing unpacks."""
    packer, content = zlib.compressobj(9, zlib.DEFLATED, -15), mat_numbers(0x27)
    packed = b"\x78\x9c" + b"\x00\x00\x00\xff\xff" * 2000 + packer.compress(content) + packer.flush()
    stream = packed + struct.pack(">I", zlib.adler32(content))
    return write_mat(folder, struct.pack("<II", 15, len(stream)) + stream)


# PLY


def ply_case(name, *replacements, read=read_surface):
    @crafted(name, read=read)
    def write(folder):
        write_ply(folder / "mesh.ply", binary=False)
        content = (folder / "mesh.ply").read_bytes()
        for old, new in replacements:
            assert old in content, old
            content = content.replace(old, new, 1)
        (folder / "mesh.ply").write_bytes(content)
        return folder / "mesh.ply"


ply_case("ply claims 1e12 vertices", (b"element vertex 6", b"element vertex 1000000000000"))
ply_case("ply claims 1e30 faces", (b"element face 8", b"element face 1000000000000000000000000000000"))
ply_case("ply claims -1 faces", (b"element face 8", b"element face -1"))
ply_case(
    "ply of thousands of properties",
    (b"property float z", b"property float z\n" + b"\n".join(b"property double p%d" % i for i in range(3000))),
)
ply_case("ply of squares", (b"3 0 2 4", b"4 0 2 4 5"))
ply_case("ply with a vertex that is not there", (b"3 0 2 4", b"3 0 2 99"))
ply_case("ply with a negative vertex", (b"3 0 2 4", b"3 0 2 -1"))
ply_case("ply with a list of 1e9", (b"3 0 2 4", b"255 0 2 4"))
ply_case("ply without faces", (b"element face 8", b"element fact 8"))
ply_case("ply without y", (b"property float y", b"property float w"))
ply_case("ply of an unknown type", (b"property float y", b"property quad y"))
ply_case("ply of faces by floats", (b"list uchar int", b"list uchar float"))
ply_case("ply without an end", (b"end_header", b"no_header"))
ply_case("ply with words", (b"1.0 0.0 0.0", b"one nil nil"))


@crafted("mesh directory with a deep JSON")
def _(folder):
    write_meshes(folder / "meshes")
    (folder / "meshes" / "body0" / "info.json").write_text("[" * 100_000)
    return folder / "meshes"


@crafted("mesh directory with a FIFO")
def _(folder):
    write_meshes(folder / "meshes")
    (folder / "meshes" / "body0" / "mesh.ply").unlink()
    os.mkfifo(folder / "meshes" / "body0" / "mesh.ply")
    return folder / "meshes"


@crafted("mesh directory with a pressure of 1e12")
def _(folder):
    write_meshes(folder / "meshes")
    (folder / "meshes" / "body0" / "press.npy").write_bytes(npy_bytes(_SHAPED.format((BIG,)), bytes(64)))
    return folder / "meshes"


# What is no file


def special_case(name, make, read=read_dataset):
    crafted(name, read=read)(make)


def fifo(folder):
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def listening(folder):
    here = os.getcwd()
    os.chdir(folder)  # names of sockets are short
    try:
        socket.socket(socket.AF_UNIX).bind("socket")
    finally:
        os.chdir(here)
    return folder / "socket"


def dangling(folder):
    (folder / "link").symlink_to("nowhere")
    return folder / "link"


def ring(folder):
    (folder / "link").symlink_to("link")
    return folder / "link"


special_case("a FIFO", fifo)
special_case("a FIFO of inputs", fifo, read_inputs)
special_case("a FIFO of clouds", fifo, lambda path: open_clouds(path))
special_case("a FIFO for a model", fifo, read_model)
special_case("a FIFO for a config", fifo, read_run_config)
special_case("a FIFO for a mesh", fifo, read_surface)
special_case("a FIFO of tests", fifo, lambda path: open_any(_grid_beside(path), ReadOptions(test=path)))
special_case("a device without end", lambda _: "/dev/zero")
special_case("a device for a model", lambda _: "/dev/zero", read_model)
special_case("a device for a config", lambda _: "/dev/zero", read_run_config)
special_case("a socket", listening)
special_case("a link to nothing", dangling)
special_case("a link to itself", ring)
special_case("a folder", lambda folder: folder)
special_case("a folder for a model", lambda folder: folder, read_model)
special_case("a folder for a config", lambda folder: folder, read_run_config)
special_case("a name with a zero", lambda folder: f"{folder}/a\0b")
special_case("a name that is too long", lambda folder: folder / ("a" * 5000))
special_case("a file for a folder", lambda folder: (write_own_grid(folder / "d.h5"), folder / "d.h5" / "more")[1])


def _grid_beside(path):
    write_own_grid(path.parent / "d.h5")
    return path.parent / "d.h5"


def text_case(name, text, read):
    @crafted(name, read=read)
    def write(folder):
        (folder / "config.json").write_bytes(text())
        return folder / "config.json"


text_case("config nested 100,000 deep", lambda: b"[" * 100_000, read_run_config)
text_case("config of objects nested deep", lambda: b'{"config":' * 100_000, read_run_config)
text_case("config of 20 MB", lambda: b'{"config": {}, "x": "' + b"a" * (20 << 20) + b'"}', read_run_config)
text_case("config a list", lambda: b"[]", read_run_config)
text_case("config of another encoding", lambda: "{}".encode("utf-16"), read_run_config)
text_case("config of unknown fields", lambda: b'{"config": {"data": "a", "model": "FNO", "oops": 1}}', read_run_config)
text_case("config of wrong kinds", lambda: b'{"config": {"data": [], "model": {}, "epochs": "many"}}', read_run_config)
text_case(
    "config with NaN", lambda: b'{"config": {"data": "a", "model": "FNO", "learning_rate": NaN}}', read_run_config
)
text_case(
    "config with 1e400", lambda: b'{"config": {"data": "a", "model": "FNO", "learning_rate": 1e400}}', read_run_config
)
text_case(
    "config with a number of 5,000 digits", lambda: b'{"config": {"epochs": ' + b"9" * 5000 + b"}}", read_run_config
)
text_case("model that is text", lambda: b"hello, this is no model at all", read_model)
text_case("model with a header of 1e18", lambda: struct.pack("<Q", 10**18) + b"{}", read_model)
text_case("model with a header of 90 MB", lambda: struct.pack("<Q", 90_000_000) + b"{", read_model)
text_case("model without a checksum", lambda: struct.pack("<Q", 2) + b"{}", read_model)
text_case("model that is a pickle", lambda: pickle.dumps({"a": 1}), read_model)

assert N == 6
