"""The domain of a dataset: declared by generators and formats, kept in the file, given by the user, or the default."""

import json
import math
import shutil

import h5py
import numpy as np
import pytest
import scipy.io
import torch

from halfwave.data import (
    Ahmed,
    Darcy,
    NavierStokes,
    ReadOptions,
    ShallowWater,
    generate,
    live_dataset,
    open_any,
    open_dataset,
)
from halfwave.domains import Box, Cloud, Sphere, Torus
from halfwave.domains.sphere_grids import latitudes
from halfwave.errors import InputError

GENERATED = [
    (Darcy(resolution=8), Box((1.0, 1.0), "nodes")),
    (Darcy(resolution=8, dim=3), Box((1.0,) * 3, "nodes")),
    (NavierStokes(resolution=8, time=0.1), Torus((2 * math.pi,) * 2)),
    (ShallowWater(resolution=8), Sphere("equiangular")),
    (Ahmed(points=100), Cloud()),
]


@pytest.mark.parametrize(("generator", "domain"), GENERATED, ids=lambda value: getattr(value, "name", None))
def test_a_generator_declares_its_domain_and_old_files_have_that_of_their_generator(generator, domain, tmp_path):
    path = generate(generator, tmp_path / "d.h5", n_train=1, n_test=1)
    dataset = open_any(path)
    assert (dataset.domain, dataset.placement.origin) == (domain, "declared")
    old = tmp_path / "old.h5"
    shutil.copy(path, old)
    with h5py.File(old, "r+") as file:
        metadata = json.loads(file.attrs["metadata"])
        assert metadata.pop("domain") == domain.to_dict()
        file.attrs["metadata"] = json.dumps(metadata)
    assert (open_any(old).domain, open_any(old).placement.origin) == (domain, "declared")
    assert generate(generator, old, n_train=1, n_test=1) == old, "a file of before domains is the same data"


def test_the_generators_points_lie_where_their_domain_says():
    """A sample on a fine grid, resampled to a coarse one, is the sample there; and a sphere's rows end at its poles."""
    for fine, coarse in (
        (NavierStokes(resolution=48, time=0.1), NavierStokes(resolution=16, solve_resolution=48, time=0.1)),
        (Darcy(resolution=17), Darcy(resolution=9)),
    ):
        found, expected = (torch.from_numpy(g.samples(0, "test", [0])[0]["x"])[None] for g in (fine, coarse))
        torch.testing.assert_close(fine.domain.resample(found, tuple(expected.shape[2:])), expected)
    state = ShallowWater(resolution=8).samples(0, "test", [0])[0]["x"]
    assert np.ptp(state[:, [0, -1]], axis=-1).max() < 1e-5 < np.ptp(state[:, 1], axis=-1).min()
    live = live_dataset(ShallowWater(resolution=8), n_train=1, n_test=1)
    assert live.domain == live.train.domain == live.test.domain == Sphere()
    assert live.metadata["domain"] == {"kind": "sphere", "points": "equiangular"}


def fields(*grid, n=6):
    return np.random.default_rng(0).standard_normal((n, *grid)).astype(np.float32)


def test_li_et_als_files(tmp_path):
    u = fields(12, 12)
    scipy.io.savemat(tmp_path / "darcy.mat", {"coeff": u, "sol": u})
    scipy.io.savemat(tmp_path / "burgers.mat", {"a": u[:, 0], "u": u[:, 1]})
    scipy.io.savemat(tmp_path / "ns.mat", {"a": u, "u": np.stack([u, u], axis=-1)})
    scipy.io.savemat(tmp_path / "other.mat", {"a": u, "u": u})
    assert open_dataset(tmp_path / "darcy.mat").domain == Box((1.0, 1.0), "nodes")
    assert open_dataset(tmp_path / "burgers.mat").domain == Torus((1.0,))
    assert open_dataset(tmp_path / "ns.mat").domain == Torus((1.0, 1.0))
    other = open_dataset(tmp_path / "other.mat")
    assert (other.domain, other.placement.origin) == (Box((1.0, 1.0), "cells"), "default")


def test_pdebench_says_where_its_cells_are(tmp_path):
    u = fields(3, 16, 8)
    x, y = (np.arange(16) + 0.5) * 2.0 / 16 - 1, (np.arange(8) + 0.5) / 8
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["tensor"], file["x-coordinate"], file["y-coordinate"] = u, x.astype("f4"), y.astype("f4")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        for i in range(6):
            file[f"{i:04d}/data"] = np.moveaxis(u[i], 0, -1)[None].repeat(2, axis=0)
            file[f"{i:04d}/grid/x"], file[f"{i:04d}/grid/y"] = x.astype("f4"), y.astype("f4")
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["tensor"] = u
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["tensor"], file["x-coordinate"], file["y-coordinate"] = u, x**3, y
    for name in "ab":
        assert open_dataset(tmp_path / f"{name}.h5").domain == Box((2.0, 1.0), "cells")
    for name in "cd":
        assert open_dataset(tmp_path / f"{name}.h5").placement.origin == "default"
    given = open_dataset(tmp_path / "a.h5", ReadOptions(domain="torus"))
    assert (given.domain, given.placement.origin) == (Torus((2.0, 1.0)), "given"), "sides are those of the file"


def write_well(path, axes, conditions, grid_type="cartesian"):
    grid = tuple(len(values) for values in axes.values())
    with h5py.File(path, "w") as file:
        file.attrs["grid_type"] = grid_type
        file["t0_fields/p"] = fields(2, *grid)
        file.create_group("dimensions").attrs["spatial_dims"] = list(axes)
        for name, values in axes.items():
            file[f"dimensions/{name}"] = np.asarray(values, dtype=np.float32)
        for name, kind in conditions.items():
            group = file.create_group(f"boundary_conditions/{name}_boundary")
            group.attrs["bc_type"], group.attrs["associated_dims"] = kind, [name]
    return path


def test_the_well_says_what_is_beyond_its_grid(tmp_path):
    axes = {"x": np.arange(10) * 0.3, "y": np.arange(12) * 0.5 + 7}
    cases = [
        (axes, {"x": "PERIODIC", "y": "periodic"}, "cartesian", Torus((3.0, 6.0))),
        (axes, {"x": "PERIODIC", "y": "WALL"}, "cartesian", Box((3.0, 6.0), "cells")),
        (axes, {"x": "OPEN"}, "cartesian", Box((3.0, 6.0), "cells")),
        ({**axes, "y": np.arange(12.0) ** 2}, {"x": "PERIODIC", "y": "WALL"}, "cartesian", None),
    ]
    for kind in ("equiangular", "legendre-gauss"):
        sphere = {"theta": latitudes(kind, 9)[0].numpy()[::-1], "phi": np.arange(16) * np.pi / 8}
        cases.append((sphere, {}, "spherical", Sphere(kind)))
    for i, (values, conditions, grid_type, expected) in enumerate(cases):
        dataset = open_dataset(write_well(tmp_path / f"{i}.h5", values, conditions, grid_type))
        assert dataset.domain == (expected or Box((1.0, 1.0), "cells"))
        assert dataset.placement.origin == ("declared" if expected else "default")


@pytest.fixture
def archive(tmp_path):
    x = torch.sin(2 * math.pi * torch.arange(64) / 64).expand(6, 64, 64).numpy()
    np.savez(tmp_path / "sine.npz", x=x, y=x)
    return tmp_path / "sine.npz"


def test_a_sine_on_a_torus_survives_another_resolution(archive):
    """It was 5.8% off, as the end points of a box were made to meet."""
    dataset = open_dataset(archive, ReadOptions(resolution=32, domain="torus"))
    expected = torch.sin(2 * math.pi * torch.arange(32) / 32).expand(32, 32)
    torch.testing.assert_close(dataset.train[0][0][0], expected, atol=1e-6, rtol=0)
    assert dataset.placement.to_dict() == {
        "kind": "torus", "lengths": [1.0, 1.0], "derivative": "spectral", "origin": "given",
    }  # fmt: skip


def test_a_file_that_declares_nothing_has_the_default(archive):
    dataset = open_dataset(archive)
    assert (dataset.domain, dataset.placement.origin) == (Box((1.0, 1.0), "cells"), "default")
    assert dataset.train.domain == dataset.domain


def test_a_stride_changes_the_box_or_is_refused(archive):
    """421 nodes with a stride of 5 are 85 nodes of the same box; 64 with a stride of 5 end before its side does."""
    assert open_dataset(archive, ReadOptions(stride=9, domain="box")).domain == Box((1.0, 1.0))
    shorter = open_dataset(archive, ReadOptions(stride=5, domain="box:6.3"))
    assert shorter.domain == Box((6.0, 6.0))
    assert shorter.grid == (13, 13)
    with pytest.raises(InputError, match="a stride of 5 leaves no periodic grid"):
        open_dataset(archive, ReadOptions(stride=5, domain="torus"))


def test_the_latitudes_of_a_sphere_follow_its_resolution(tmp_path):
    path = generate(ShallowWater(resolution=9), tmp_path / "s.h5", n_train=1, n_test=1)
    dataset = open_dataset(path, ReadOptions(resolution=5))
    assert dataset.grid == (5, 10)
    with pytest.raises(InputError, match="a stride of 4 leaves no equiangular grid of 9x18 points"):
        open_dataset(path, ReadOptions(stride=4))


def test_domains_that_do_not_fit_are_named(archive, tmp_path):
    for options, words in (
        ({"domain": "cloud"}, "'cloud' does not fit a grid of 2 axes"),
        ({"domain": "box:1x2x3"}, "does not fit a grid of 2 axes"),
    ):
        with pytest.raises(InputError, match=f"sine.npz: .*{words}"):
            open_dataset(archive, ReadOptions(**options))
    with pytest.raises(InputError, match="unknown domain 'donut'"):
        ReadOptions(domain="donut")
    bodies = generate(Ahmed(points=100), tmp_path / "a.h5", n_train=1, n_test=1)
    assert open_any(bodies, ReadOptions(domain="cloud")).domain == Cloud()
    with pytest.raises(InputError, match="'torus' does not fit point clouds"):
        open_any(bodies, ReadOptions(domain="torus"))
    torus, box = (generate(g, tmp_path / f"{g.name}.h5", n_train=1, n_test=1) for g, _ in (GENERATED[2], GENERATED[0]))
    with pytest.raises(InputError, match=r"is on a torus .* and .* on a box 1 x 1; give one domain for both"):
        open_dataset(torus, ReadOptions(test=box))
    assert open_dataset(torus, ReadOptions(test=box, domain="box")).placement.origin == "given"
    for name, domain, words in (
        ("disc", {"kind": "disc"}, "not a domain"),
        ("line", {"kind": "torus", "lengths": [1.0]}, "a domain torus 1 has 1 axes; it was given a grid"),
    ):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file.attrs["metadata"] = json.dumps({"domain": domain})
            for split in ("train", "test"):
                file[f"{split}/x"] = file[f"{split}/y"] = np.ones((2, 1, 8, 8))
        with pytest.raises(InputError, match=f"{name}.h5: {words}"):
            open_dataset(tmp_path / f"{name}.h5")
