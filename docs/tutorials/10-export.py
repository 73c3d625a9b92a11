# %% [markdown]
# # 10. Export, and the page
#
# A trained operator as a program without Python: an ONNX file for any runtime, and one HTML page that runs the
# operator in a browser, beside the true solution of what you draw.

# %%
from pathlib import Path

import numpy as np
import onnxruntime
import torch

import halfwave as hw
from halfwave.data import Darcy, generate, open_dataset
from halfwave.errors import InputError

# %%
data = open_dataset(generate(Darcy(resolution=24, high=4.5), "darcy.h5", n_train=48, n_test=8))
run = hw.train(
    data="darcy.h5", model="FNO", arguments={"n_modes": (8, 8), "hidden_channels": 12, "n_layers": 2}, epochs=8,
    learning_rate=8e-3, scheduler="one-cycle", precision="mixed", run_dir="runs/darcy", quiet=True,
)  # fmt: skip
print(f"test error {run.l2_full:.3f}: a toy, so that this page builds in seconds")

# %% [markdown]
# ## ONNX
# Normalizers are part of the program: fields in the units of the file go in and come out. The file is run beside torch
# when it is written, and not left behind where it answers otherwise.

# %%
exported = hw.export("runs/darcy", "darcy.onnx", policy="full")
print(exported)

# %%
x, y = data.test[[0, 1]]
session = onnxruntime.InferenceSession("darcy.onnx")
(answer,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
operator = hw.load("runs/darcy/model.safetensors")
hw.set_precision(operator, "full")
with torch.no_grad():
    expected = operator(x).numpy()
print(f"ONNX Runtime against torch: {np.abs(answer - expected).max() / np.abs(expected).max():.1e}")

# %% [markdown]
# `dynamic=("batch", "grid")` makes a program for any grid that has the modes; `weights="fp16"` stores half the bytes
# (products stay in fp32).
#
# ## The page
# `halfwave export RUN --format html`. ONNX Runtime Web is fetched by npm the first time and kept in the user's cache;
# the page itself needs no network, from `file://` or anywhere. Where there is neither npm nor a cache, one line says so:

# %%
try:
    print(hw.export("runs/darcy", "operator.html", policy="full", weights="fp16"))
    print(f"operator.html: {Path('operator.html').stat().st_size / 2**20:.0f} MiB in one file")
except InputError as refusal:
    print("no page here:", refusal)

# %% [markdown]
# ![The page: a drawn medium, its prediction, the solution by a solver in the page, the error](../images/operator-page.png)
#
# (a better model than the toy above, trained on varied media to be drawn on by `examples/varied_page.py`).
# What is refused, and why: [export](../export.md).
