# %% [markdown]
# # 5. Cars with GINO
#
# From the shape of a body to the pressure on it. Each sample is a cloud of points of its own; `hw.GINO` goes from the
# cloud to a latent grid by a graph kernel, through an FNO there, and back.
#
# The data are **not** the paper's: potential flow around parametric bodies, plausible at the nose, hood and roof, and
# wrong behind the car, where real flow separates ([what the data are](../data.md)).

# %%
import matplotlib.pyplot as plt
import torch

import halfwave as hw
from halfwave.data import Car, generate, open_point_dataset

# %%
cars = open_point_dataset(generate(Car(points=240), "cars.h5", n_train=16, n_test=4))
sample = cars.test[0]
print(
    f"{len(cars.train)} + {len(cars.test)} cars of {len(sample.points)} points; parameters {len(sample.parameters)}"
)

# %%
settings = {
    "data": "cars.h5", "model": "GINO", "latent_resolution": 10, "batch_size": 4, "epochs": 16, "learning_rate": 6e-3,
    "scheduler": "one-cycle", "quiet": True,
    "arguments": {
        "fno_n_modes": (6, 6, 6), "fno_hidden_channels": 12, "fno_n_layers": 2, "gno_embed_channels": 8, "in_gno_channel_mlp_hidden_layers": (24,),
        "out_gno_channel_mlp_hidden_layers": (48,),
        "in_gno_radius": 0.2, "out_gno_radius": 0.2,
    },
}  # fmt: skip
mixed = hw.train(precision="mixed", run_dir="runs/mixed", **settings)

# %% [markdown]
# A baseline that needs no network: all cars have the same mesh, so the mean pressure at each mesh point over the
# train cars is a forecast too.

# %%
mean = torch.stack([car.pressure for car in cars.train]).mean(0)
baseline = sum(
    float((mean - car.pressure).norm() / car.pressure.norm()) for car in cars.test
) / len(cars.test)
print(
    f"test L2   trained in mixed {mixed.l2:.3f}, the same weights in full precision {mixed.l2_full:.3f}"
)
print(f"          mean pressure of the train cars {baseline:.3f}")

# %% [markdown]
# Be honest with such a table: where the model's figure is above the mean's, the mean is the better forecast, and with
# 16 cars and seconds of training that is to be expected. This page shows how to train a GINO, not that it has learnt
# aerodynamics. The recipe `car-medium` (384 shapes) is for that, and
# `halfwave train car --data DIR` takes the published meshes.

# %%
operator = hw.load("runs/mixed/model.safetensors")
with torch.no_grad():
    answer = operator(operator.encoder.collate([sample]))
answer = answer.reshape(-1)
fig = plt.figure(figsize=(13, 3.2), constrained_layout=True)
for number, (values, title) in enumerate(
    (
        (sample.pressure, "pressure, Pa"),
        (answer, "answer, Pa"),
        (answer - sample.pressure, "error, Pa"),
    )
):
    ax = fig.add_subplot(1, 3, number + 1, projection="3d")
    dots = ax.scatter(*sample.points.T, c=values, s=9, cmap="viridis")
    fig.colorbar(dots, ax=ax, shrink=0.6)
    ax.set(title=title, box_aspect=(4.4, 1.8, 1.4), xticks=[], yticks=[], zticks=[])

# %% [markdown]
# More: batches of different geometries, neighbours, memory limits in [GINO](../gino.md).
