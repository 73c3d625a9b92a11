"""Small bodies with a pressure that can be learned, as point clouds of different sizes, and a small model for them."""

import json

import h5py
import numpy as np

GINO = {
    "fno_n_modes": [4, 4, 4],
    "fno_hidden_channels": 6,
    "fno_n_layers": 2,
    "in_gno_radius": 0.3,
    "out_gno_radius": 0.3,
    "gno_embed_channels": 4,
    "in_gno_channel_mlp_hidden_layers": [8],
    "out_gno_channel_mlp_hidden_layers": [8],
    "out_gno_reduction": "mean",
}


def ellipsoid(rng, points):
    """A body of random axes in a wind along x: p = v^2 (1 - 9/4 sin^2) of the sphere that it is stretched from."""
    unit = rng.standard_normal((points, 3))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    axes, velocity = rng.uniform(0.6, 1.8, 3), rng.uniform(1, 3)
    normals = unit / axes
    return {
        "points": unit * axes + 5.0,
        "normals": normals / np.linalg.norm(normals, axis=1, keepdims=True),
        "areas": np.full(points, 4 * np.pi * axes.prod() ** (2 / 3) / points),
        "pressure": velocity**2 * (1 - 2.25 * (1 - unit[:, 0] ** 2)),
        "parameters": np.array([axes[0], velocity]),
    }


def write_clouds(path, sizes=(30, 45, 20, 38, 25, 33), tests=(28, 40), seed=0):
    rng = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        file.attrs["metadata"] = json.dumps({"name": "ellipsoids", "parameter_names": ["length", "velocity"]})
        for split, counts in (("train", sizes), ("test", tests)):
            samples = [ellipsoid(rng, count) for count in counts]
            file[f"{split}/offsets"] = np.cumsum([0, *counts])
            for name in samples[0]:
                join = np.stack if name == "parameters" else np.concatenate
                file[f"{split}/{name}"] = join([sample[name] for sample in samples]).astype(np.float32)
    return path
