"""Directories of one folder a sample, as the ShapeNet car and Ahmed body data are published.

    train.txt, test.txt          names of folders, separated by commas or lines (without them the last fifth is test)
    <name>/*.ply                 a triangle mesh; folders may be in the directory itself or in `data/`
    <name>/press.npy             pressure at its vertices (or `pressure.npy`)
    <name>/*.json or *.txt       optional: parameters, such as a velocity, as {"name": value} or lines `name: value`

ShapeNet's `press.npy` has 3,682 values for 3,586 vertices: entries 16 to 111 belong to no vertex and are left out, as
in neuraloperator's loader.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from halfwave.data.claims import check_memory
from halfwave.data.generator import SPLITS
from halfwave.data.point_dataset import PointDataset, PointSplit
from halfwave.data.readers.common import ReadOptions
from halfwave.data.readers.npy_file import NpyArray
from halfwave.data.readers.ply import read_ply
from halfwave.data.refusals import reading, require_file
from halfwave.errors import InputError
from halfwave.files import read_json

_PRESSURES = ("press.npy", "pressure.npy")
_EXTRA = slice(16, 112)


def is_mesh_directory(path: Path) -> bool:
    return any((path / f"{split}.txt").is_file() for split in SPLITS) or bool(_sample_folders(path))


def read_mesh_directory(path: Path, options: ReadOptions) -> PointDataset:
    folders = _split_folders(path, options.n_test)
    names = list(_read_parameters(folders["train"][0])) if folders["train"] else []
    limits = {"train": options.n_train, "test": options.n_test}
    train, test = (PointSplit(path, split, MeshFolders(folders[split][: limits[split]], names)) for split in SPLITS)
    return PointDataset(path, {"format": "mesh directory", "parameter_names": names}, train, test)


class MeshFolders:
    """Samples in folders, each read when asked for."""

    def __init__(self, folders: list[Path], parameter_names: list[str]) -> None:
        self.folders, self.parameter_names = folders, parameter_names

    def __len__(self) -> int:
        return len(self.folders)

    def read(self, index: int) -> dict[str, np.ndarray]:
        with reading(folder := self.folders[index]):
            return self._read(folder)

    def _read(self, folder: Path) -> dict[str, np.ndarray]:
        mesh = read_ply(_mesh_file(folder))
        parameters = _read_parameters(folder)
        if list(parameters) != self.parameter_names:
            raise InputError(f"{folder} has parameters {list(parameters)}; the first sample has {self.parameter_names}")
        return {
            "points": mesh.vertices,
            "normals": mesh.vertex_normals,
            "areas": mesh.vertex_areas,
            "pressure": _read_pressure(folder, len(mesh.vertices)),
            "parameters": np.array(list(parameters.values())),
        }


def _sample_folders(path: Path) -> list[Path]:
    roots = [root for root in (path, path / "data", path / "data" / "data") if root.is_dir()]
    return sorted(
        folder for root in roots for folder in root.iterdir() if any((folder / name).is_file() for name in _PRESSURES)
    )


def _split_folders(path: Path, n_test: int | None) -> dict[str, list[Path]]:
    listed = {split: path / f"{split}.txt" for split in SPLITS}
    if all(file.is_file() for file in listed.values()):
        return {split: _listed_folders(path, file) for split, file in listed.items()}
    folders = _sample_folders(path)
    held_out = n_test or max(1, len(folders) // 5)
    if len(folders) <= held_out:
        raise InputError(f"{path} has {len(folders)} samples; more than the {held_out} of the test split are needed")
    return {"train": folders[:-held_out], "test": folders[-held_out:]}


def _listed_folders(path: Path, file: Path) -> list[Path]:
    names = _text(file).replace(",", "\n").split()
    by_name = {folder.name: folder for folder in _sample_folders(path)}
    for name in names:
        if name not in by_name:
            raise InputError(f"{file} lists '{name}'; there is no such folder with a pressure file in {path}")
    return [by_name[name] for name in names]


def _mesh_file(folder: Path) -> Path:
    meshes = sorted(folder.glob("*.ply"))
    if len(meshes) != 1:
        raise InputError(f"{folder} has {len(meshes)} .ply files; one mesh is expected")
    return meshes[0]


def _read_pressure(folder: Path, vertices: int) -> np.ndarray:
    file = next(folder / name for name in _PRESSURES if (folder / name).is_file())
    values = _pressure_values(file)
    values = values.reshape(-1) if values.size == max(values.shape, default=0) else values
    if values.ndim == 1 and len(values) == vertices + _EXTRA.stop - _EXTRA.start:
        values = np.delete(values, _EXTRA)
    if values.shape != (vertices,):
        raise InputError(f"{file} has shape {values.shape}; {vertices} values, one a vertex, are expected")
    return values


def _pressure_values(file: Path) -> np.ndarray:
    try:
        return NpyArray(file).values
    except InputError as error:
        raise InputError(f"{file} is truncated, an object array or not a NumPy file: {error}") from error


def _read_parameters(folder: Path) -> dict[str, float]:
    files = sorted([*folder.glob("*.json"), *folder.glob("*.txt")])
    if not files:
        return {}
    try:
        found = read_json(files[0]) if files[0].suffix == ".json" else _parse_lines(_text(files[0]))
        return {str(name): float(value) for name, value in found.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{files[0]} is not a list of named numbers") from error


def _text(file: Path) -> str:
    require_file(file)
    check_memory(str(file), file.stat().st_size)
    with reading(file):
        return file.read_text(encoding="utf-8", errors="replace")


def _parse_lines(text: str) -> dict[str, str]:
    lines = [line.replace("=", ":") for line in text.splitlines() if line.strip()]
    if not all(":" in line for line in lines):
        raise ValueError("a line without a name")
    return {name.strip(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
