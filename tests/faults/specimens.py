"""One small file of every kind that the library reads, and how to read all of it into one value."""

import hashlib
import json
from dataclasses import dataclass

import h5py
import numpy as np
import scipy.io
import torch

import halfwave as hw
from halfwave.data import CloudWriter, Dataset, Heat, ReadOptions, generate, open_any, open_fields
from halfwave.data.h5_writing import written_h5
from halfwave.data.readers.ply import read_ply
from halfwave.training.checkpointing import Checkpoints
from halfwave.training.config import TrainConfig, read_config

N, GRID = 6, (9, 8)


def fields(seed=0):
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal((N, *GRID)).astype(np.float32) for _ in range(2))
    x[:, 2:4] = 12.0  # low halves of zeros, as coefficients have
    return x, y


@dataclass(frozen=True)
class Specimen:
    """A file, or a folder of files, in `folder`; `checked` where its format carries checksums."""

    name: str
    write: object
    read: object
    checked: bool = False
    place: str = "data.bin"

    def make(self, folder):
        path = folder / self.place
        self.write(path)
        return path


def digest(*parts):
    """One value of arrays, tensors and whatever prints."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, torch.Tensor):
            part = part.detach().numpy()
        found.update(f"{part.dtype}{part.shape}".encode() + part.tobytes() if hasattr(part, "tobytes") else b"")
        found.update(b"" if hasattr(part, "tobytes") else repr(part).encode())
    return found.hexdigest()


def read_dataset(path):
    dataset = open_any(path)
    if isinstance(dataset, Dataset):
        return digest(
            *dataset.train[:], *dataset.test[:], str(dataset.domain), sorted(map(str, dataset.metadata.items()))
        )
    arrays = [array for split in (dataset.train, dataset.test) for sample in split for array in vars(sample).values()]
    return digest(*arrays, sorted(map(str, dataset.metadata.items())))


def read_inputs(path):
    return digest(open_fields(path, ReadOptions(channel_axis="none"))[:])


def read_surface(path):
    mesh = read_ply(path)
    return digest(mesh.vertices, mesh.triangles)


def read_model(path):
    model = hw.load(path)
    return digest(model.config, *(tensor for _, tensor in sorted(model.state_dict().items())))


def read_state(path):
    tensors, values = Checkpoints(path.parent, 1).read(lambda _: None)
    return digest(json.dumps(values, sort_keys=True), *(tensors[name] for name in sorted(tensors)))


def read_run_config(path):
    return json.dumps(read_config(path).to_dict(), sort_keys=True)


def write_own_grid(path):
    x, y = fields()
    with written_h5(path) as writer:
        writer.describe({"name": "specimen", "seed": 0, "n_train": 4, "n_test": 2})
        for split, part in (("train", slice(0, 4)), ("test", slice(4, 6))):
            writer.put(f"{split}/x", x[part, None])
            writer.put(f"{split}/y", y[part, None])


def write_own_time(path):
    generate(Heat(resolution=16, steps=3), path, n_train=3, n_test=2)


def write_own_clouds(path):
    rng = np.random.default_rng(0)
    with written_h5(path) as writer:
        writer.describe({"name": "specimen", "parameter_names": ["speed"]})
        for split in ("train", "test"):
            for count in (20, 17):
                writer.append_offset(f"{split}/offsets", count)
                for name, tail in (("points", (3,)), ("normals", (3,)), ("areas", ()), ("pressure", ())):
                    writer.append(f"{split}/{name}", rng.random((count, *tail)).astype(np.float32))
                writer.append(f"{split}/parameters", rng.random((1, 1)).astype(np.float32))


def write_unchecked_own(path):
    """As the library wrote before it had checksums."""
    x, y = fields()
    with h5py.File(path, "w") as file:
        file.attrs["metadata"] = json.dumps({"name": "specimen", "seed": 0})
        for split, part in (("train", slice(0, 4)), ("test", slice(4, 6))):
            file[f"{split}/x"], file[f"{split}/y"] = x[part, None], y[part, None]


def write_predicted_clouds(path):
    with CloudWriter(path.with_suffix(".h5")) as writer:
        writer.append(torch.rand(20, 3), torch.rand(20))
    path.with_suffix(".h5").rename(path)


def write_npz(path, save=np.savez):
    x, y = fields()
    with open(path, "wb") as file:
        save(file, x=x, y=y)


def write_packed_npz(path):
    write_npz(path, np.savez_compressed)


def write_npz_in_time(path):
    with open(path, "wb") as file:
        np.savez(file, trajectory=np.stack(fields(), axis=1)[:, :, None])


def write_npy(path):
    with open(path, "wb") as file:
        np.save(file, fields()[0])


def write_pt(path, zipped=True):
    x, y = map(torch.from_numpy, fields())
    torch.save({"x": x, "y": y}, path, _use_new_zipfile_serialization=zipped)


def write_old_pt(path):
    write_pt(path, zipped=False)


def write_cars(path):
    cars = [
        {"vertices": torch.rand(15, 3), "press": torch.rand(15), "vertex_normals": torch.rand(15, 3)} for _ in range(4)
    ]
    torch.save(cars, path)


def write_mat(path, packed=False):
    x, y = fields()
    with open(path, "wb") as file:
        scipy.io.savemat(file, {"coeff": x, "sol": y}, do_compression=packed)


def write_packed_mat(path):
    write_mat(path, packed=True)


def write_mat73(path):
    x, y = fields()
    with h5py.File(path, "w", userblock_size=512) as file:
        file["a"], file["u"] = x.T, y.T
        file["a"].attrs["MATLAB_class"] = np.bytes_("single")
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(128))


def write_pdebench(path):
    x, y = fields()
    with h5py.File(path, "w") as file:
        file["tensor"], file["x-coordinate"], file["y-coordinate"] = (
            np.stack([x, y], axis=1),
            *map(np.arange, (9.0, 8.0)),
        )


def write_pdebench_seeds(path):
    x, y = fields()
    with h5py.File(path, "w") as file:
        for i in range(N):
            file[f"{i:04d}/data"] = np.stack([x[i], y[i]])[..., None]
            file[f"{i:04d}/grid/x"], file[f"{i:04d}/grid/y"] = np.arange(9.0), np.arange(8.0)


def write_the_well(path):
    x, y = fields()
    with h5py.File(path, "w") as file:
        file["t0_fields/density"] = np.stack([x, y], axis=1)
        file["t0_fields/density"].attrs.update(sample_varying=True, time_varying=True, dim_varying=[True, True])
        file["dimensions/x"], file["dimensions/y"] = np.arange(9.0), np.arange(8.0)
        file["dimensions"].attrs["spatial_dims"] = ["x", "y"]
        for axis in "xy":
            group = file.create_group(f"boundary_conditions/{axis}_periodic")
            group.attrs.update(bc_type="PERIODIC", associated_dims=[axis])


OCTAHEDRON = (
    np.array([(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)], dtype=np.float32),
    np.array([(0, 2, 4), (2, 1, 4), (1, 3, 4), (3, 0, 4), (2, 0, 5), (1, 2, 5), (3, 1, 5), (0, 3, 5)], dtype=np.int32),
)


def write_ply(path, binary=True):
    vertices, triangles = OCTAHEDRON
    form = "binary_little_endian" if binary else "ascii"
    header = f"ply\nformat {form} 1.0\nelement vertex {len(vertices)}\n"
    header += "".join(f"property float {axis}\n" for axis in "xyz")
    header += f"element face {len(triangles)}\nproperty list uchar int vertex_indices\nend_header\n"
    if binary:
        body = vertices.tobytes() + b"".join(b"\x03" + row.tobytes() for row in triangles)
    else:
        rows = [*(" ".join(map(str, row)) for row in vertices), *("3 " + " ".join(map(str, row)) for row in triangles)]
        body = ("\n".join(rows) + "\n").encode()
    path.write_bytes(header.encode() + body)


def write_ascii_ply(path):
    write_ply(path, binary=False)


def write_meshes(path):
    for i in range(3):
        folder = path / f"body{i}"
        folder.mkdir(parents=True)
        write_ply(folder / "mesh.ply")
        np.save(folder / "press.npy", np.arange(6.0) + i)
        (folder / "info.json").write_text(json.dumps({"speed": 1.0 + i}))


def write_model(path):
    torch.manual_seed(0)
    hw.save(hw.FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=4, n_layers=1), path)


def write_state(path):
    torch.manual_seed(0)
    values = {"position": {"epoch": 1, "step": 3, "best": 0.5}, "engine": {"scale": 1.0}}
    Checkpoints(path.parent, 1).write(3, {"weight": torch.randn(8, 9), "moment": torch.randn(8, 9)}, values)


def write_run_config(path):
    config = TrainConfig(data="darcy.h5", model="FNO", arguments={"n_modes": [4, 4], "hidden_channels": 6})
    path.write_text(json.dumps({"config": config.to_dict(), "data": {}, "environment": {}}, indent=2))


SPECIMENS = [
    Specimen("own HDF5, fields", write_own_grid, read_dataset, checked=True),
    Specimen("own HDF5, in time", write_own_time, read_dataset, checked=True),
    Specimen("own HDF5, clouds", write_own_clouds, read_dataset, checked=True),
    Specimen("own HDF5 of before checksums", write_unchecked_own, read_dataset),
    Specimen("npz", write_npz, read_dataset, checked=True),
    Specimen("npz, compressed", write_packed_npz, read_dataset, checked=True),
    Specimen("npz, trajectories", write_npz_in_time, read_dataset, checked=True),
    Specimen("npy", write_npy, read_inputs),
    Specimen("pt", write_pt, read_dataset, checked=True),
    Specimen("pt of before torch 1.6", write_old_pt, read_dataset),
    Specimen("pt, list of cars", write_cars, read_dataset, checked=True),
    Specimen("mat 5", write_mat, read_dataset),
    Specimen("mat 5, compressed", write_packed_mat, read_dataset),
    Specimen("mat 7.3", write_mat73, read_dataset),
    Specimen("PDEBench", write_pdebench, read_dataset),
    Specimen("PDEBench by seed", write_pdebench_seeds, read_dataset),
    Specimen("The Well", write_the_well, read_dataset),
    Specimen("PLY, binary", write_ply, read_surface),
    Specimen("PLY, text", write_ascii_ply, read_surface),
    Specimen("mesh directory", write_meshes, read_dataset, place="meshes"),
    Specimen("model", write_model, read_model, checked=True, place="model.safetensors"),
    Specimen("training state", write_state, read_state, checked=True, place="at-0000000003.safetensors"),
    Specimen("config", write_run_config, read_run_config, place="config.json"),
]
