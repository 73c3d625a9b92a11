# %% [markdown]
# # 1. Darcy flow in mixed precision
#
# Water seeps through a medium of two materials. From the medium *a* an operator shall tell the pressure *u*:
# −div(a grad u) = 1 on the unit square, u = 0 on its boundary. We make data with a real solver, train the same FNO
# twice, in full and in mixed precision, and compare errors and bytes.

# %%
import matplotlib.pyplot as plt
import torch

import halfwave as hw
from halfwave.data import Darcy, generate, open_dataset

# %% [markdown]
# ## Data
# 144 media of two materials (4.5 and 3), solved to 1e-10 on 32 × 32 nodes. The file knows its domain, so errors with
# derivatives (H1) have the right spacing.

# %%
path = generate(Darcy(resolution=32, high=4.5), "darcy.h5", n_train=128, n_test=16)
dataset = open_dataset(path)
print(dataset.understood())

# %% [markdown]
# ## Two trainings
# A small FNO, so that this page builds quickly (`model="fno"` alone would take its settings from the data). `mixed` is
# the paper's method: spectral layers and pointwise layers in a half format. Without a word about it that is fp16 on
# CUDA and bf16 on a CPU; here we ask for fp16, which has more digits, with loss scaling, as its range is narrow.
# Weights stay in fp32 in any case.

# %%
settings = {
    "data": "darcy.h5", "model": "FNO", "arguments": {"n_modes": (12, 12), "hidden_channels": 16, "n_layers": 2},
    "epochs": 10, "batch_size": 16, "learning_rate": 8e-3, "scheduler": "one-cycle", "quiet": True,
}  # fmt: skip
full = hw.train(precision="full", run_dir="runs/full", **settings)
mixed = hw.train(
    precision="mixed", dtype="fp16", loss_scaling=True, run_dir="runs/mixed", **settings
)

# %%
print(f"{'':8}{'test L2':>10}{'test H1':>10}{'activations':>14}{'peak':>10}")
for name, run in (("full", full), ("mixed", mixed)):
    print(
        f"{name:8}{run.l2:10.4f}{run.h1:10.4f}{run.activation_bytes / 2**20:10.1f} MiB{run.peak_memory_bytes / 2**20:6.1f} MiB"
    )
print(
    f"mixed / full: L2 {mixed.l2 / full.l2:.3f}, activations {mixed.activation_bytes / full.activation_bytes:.2f}"
)

# %% [markdown]
# The error ratio is that of one pair of short trainings: between two seeds it varies by a few percent, so read it as
# "no visible loss", not as a measurement of the loss. The [evidence](../evidence/index.md) has pairs of many seeds
# with intervals.
#
# The bytes are counted, not sampled: the largest sum of live tensor storages in a training step, the same on every
# machine. A step as small as this one is dominated by the temporaries of one layer, which half precision does not
# shrink; as batch or grid grow, the saved fields take over. The planner says so without running anything:

# %%
from halfwave.planner import plan_memory

model = hw.FNO(in_channels=1, out_channels=1, **settings["arguments"])
for batch, grid in ((8, 32), (16, 32), (64, 32), (16, 128)):
    planned = {
        p: plan_memory(model, (batch, 1, grid, grid), policy=p, device="cpu").activations
        for p in ("full", "mixed")
    }
    ratio = planned["mixed"] / planned["full"]
    print(
        f"batch {batch:3} on {grid} x {grid}: full {planned['full'] / 2**20:6.1f} MiB, mixed / full {ratio:.2f}"
    )

# %%
fig, (left, *right) = plt.subplots(1, 5, figsize=(14, 2.7), constrained_layout=True)
for name, run, style in (("full", full, "-"), ("mixed", mixed, "--")):
    epochs, errors = zip(*((row["epoch"], row["test_l2"]) for row in run.rows), strict=True)
    left.semilogy(epochs, errors, style, label=name)
left.set(title="test L2 by epoch", xlabel="epoch")
left.legend()
operator = hw.load("runs/mixed/model.safetensors")
x, y = dataset.test[[0]]
with torch.no_grad():
    answer = operator(x)
for ax, field, title in zip(
    right, (x, y, answer, answer - y), ("medium a", "true u", "answer", "error"), strict=True
):
    fig.colorbar(ax.imshow(field[0, 0].T, origin="lower"), ax=ax, shrink=0.8)
    ax.set(title=title, xticks=[], yticks=[])

# %% [markdown]
# ## What was saved, and what not
# - Memory: towards half of the activations, the larger the step the closer. Of the peak less: weights, gradients and
#   the optimizer's state are fp32.
# - Time: nothing on a CPU that cannot multiply in half precision (this page does not time anything).
# - The answer: `predict` and `evaluate` use full precision unless told otherwise, since rounding an answer costs more
#   than training in half does. The next tutorial asks how much.
