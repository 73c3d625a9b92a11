# %% [markdown]
# # 4. On the sphere
#
# Weather lives on a sphere. `hw.SFNO` takes spherical harmonics where the FNO takes waves; here too the truncated
# transform is a product with small matrices, so that half formats work. We learn one hour of shallow water.

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch

import halfwave as hw
from halfwave.data import ShallowWater, generate, open_dataset

# %%
data = open_dataset(
    generate(ShallowWater(resolution=32, hours=1.0), "water.h5", n_train=32, n_test=8)
)
print(data.understood())
x, y = data.test[list(range(8))]

# %%
settings = {
    "data": "water.h5", "model": "SFNO", "arguments": {"n_modes": (11, 21), "hidden_channels": 12, "n_layers": 2},
    "epochs": 16, "batch_size": 8, "learning_rate": 8e-3, "scheduler": "one-cycle", "quiet": True,
}  # fmt: skip
full = hw.train(precision="full", run_dir="runs/full", **settings)
mixed = hw.train(
    precision="mixed", dtype="fp16", loss_scaling=True, run_dir="runs/mixed", **settings
)
same = float(
    (
        torch.linalg.vector_norm((x - y).flatten(1), dim=1)
        / torch.linalg.vector_norm(y.flatten(1), dim=1)
    ).mean()
)
print(f"test L2   full {full.l2:.4f}   mixed {mixed.l2:.4f}   'nothing changes' {same:.4f}")
print(
    f"activations, mixed / full: {mixed.activation_bytes / full.activation_bytes:.2f} here,",
    end=" ",
)
model = hw.SFNO((86, 171), 3, 3, hidden_channels=32)  # the paper's grid, planned
planned = [
    hw.planner.plan_memory(model, (4, 3, 256, 512), policy=p, device="cuda").activations
    for p in ("mixed", "full")
]
print(f"{planned[0] / planned[1]:.2f} planned at 256 x 512")

# %% [markdown]
# *Nothing changes* is the baseline that any forecast has to beat. Errors on the sphere weigh each point by its area:
# the crowded latitudes near the poles count for what they are.

# %%
operator = hw.load("runs/mixed/model.safetensors")
with torch.no_grad():
    answer = operator(x[:1])
colatitude, longitude = (
    np.linspace(np.pi / 2, -np.pi / 2, 32),
    np.linspace(-np.pi, np.pi, 64, endpoint=False),
)
fig = plt.figure(figsize=(13, 2.6), constrained_layout=True)
for number, (field, title) in enumerate(
    (
        (x[:1], "height now"),
        (y[:1], "height in an hour"),
        (answer, "answer"),
        (answer - y[:1], "error"),
    )
):
    ax = fig.add_subplot(1, 4, number + 1, projection="mollweide")
    mesh = ax.pcolormesh(longitude, colatitude, field[0, 0], cmap="RdBu_r", shading="auto")
    fig.colorbar(mesh, ax=ax, shrink=0.6)
    ax.set_title(title)
    ax.set_xticks([])
    ax.set_yticks([])

# %% [markdown]
# ## Does it know that the Earth turns about an axis, and nothing else?
# Turning the input by some longitudes should turn the answer. The spectral layers are made so, but by default the
# coordinates are channels of the input as well (`positional_embedding="grid"`, as in neuraloperator), and a model may
# use them. Without them it holds to rounding:

# %%
with torch.no_grad():
    for name, model in (
        ("trained, with coordinates", operator),
        (
            "new, without",
            hw.SFNO((11, 21), 3, 3, hidden_channels=16, n_layers=2, positional_embedding=None),
        ),
    ):
        hw.set_precision(model, "full")
        turned, expected = model(x[:2].roll(5, -1)), model(x[:2]).roll(5, -1)
        print(
            f"{name:26} turn and answer, answer and turn differ by {float((turned - expected).norm() / expected.norm()):.1e}"
        )
