# %% [markdown]
# # 6. A rollout
#
# A model of one step, applied to its own answers. Two questions: how long does it follow the truth, and does half
# precision shorten that? We take the Kuramoto-Sivashinsky equation, which is chaotic: small differences grow.

# %%
import matplotlib.pyplot as plt
import numpy as np

import halfwave as hw
from halfwave.data import KuramotoSivashinsky, ReadOptions, Window, generate, open_dataset
from halfwave.precision import Policy
from halfwave.training import compare_precisions, evaluate_rollout, start_of

# %%
generator = KuramotoSivashinsky(resolution=64, length=64.0, steps=40, interval=1.0)
generate(generator, "ks.h5", n_train=24, n_test=6)
run = hw.train(
    data="ks.h5", model="FNO", arguments={"n_modes": (40,), "hidden_channels": 24, "n_layers": 2}, horizon=1,
    residual=True, epochs=12, batch_size=32, learning_rate=6e-3, scheduler="one-cycle", precision="full",
    run_dir="runs/ks", quiet=True,
)  # fmt: skip
print(f"error of one step: {run.l2:.4f}")

# %% [markdown]
# With `horizon=1` every pair of neighbouring states is a sample; `residual=True` lets the model answer with the change.
# Longer horizons train through several steps ([time](../time.md)).
#
# ## Against the truth

# %%
operator = hw.load("runs/ks/model.safetensors")
window = Window(1, 1, 1)
source = open_dataset("ks.h5", ReadOptions(window=window)).test.windows.source
result = evaluate_rollout(operator, source, window, 40, interval=1.0)
print(f"followed (correlation above 0.8) for {result.correlation_time:.0f} units of time")

# %% [markdown]
# ## Half against full, along the same rollout
# ε is the rounding of one step, e^λ the growth of differences in a step: then d_n = ε (e^{nλ} − 1)/(e^λ − 1). λ is
# measured on the full model; ε is measured here, and `halfwave rollout` predicts it by the certificate.

# %%
x = start_of(source, window, np.arange(4))
partings = {
    name: compare_precisions(operator, x, Policy.named("mixed", dtype=name), result.mean_errors)
    for name in ("fp16", "bf16")
}
for name, parting in partings.items():
    where = "never" if parting.parts_at is None else f"after {parting.parts_at} steps"
    print(
        f"mixed {name}: one step rounds by {parting.differences[0]:.1e}; above the model's own error {where}"
    )
time = partings["fp16"].lyapunov_time
print(
    "differences do not grow here"
    if time is None
    else f"differences grow e-fold in {time:.0f} units of time"
)

# %%
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 3.4), constrained_layout=True)
truth, answer = result.shown
for ax, field, title in ((left, truth, "truth"), (middle, answer, "rollout in full precision")):
    ax.imshow(field[:, 0].T, aspect="auto", cmap="RdBu_r", vmin=-3, vmax=3)
    ax.set(title=title, xlabel="step", ylabel="x", yticks=[])
right.semilogy(range(1, result.steps + 1), result.mean_errors, "k", label="the model's own error")
for name, parting in partings.items():
    (line,) = right.semilogy(
        range(1, len(parting.differences) + 1), parting.differences, label=f"full − mixed {name}"
    )
    right.semilogy(
        range(1, len(parting.predicted) + 1), parting.predicted, ":", color=line.get_color()
    )
right.set(title="errors and differences (dots: d_n)", xlabel="step")
right.legend()

# %% [markdown]
# As long as a coloured line is below the black one, rounding is not what spoils the forecast. On the command line:
# `halfwave rollout runs/ks` prints the same with quantiles and spectra, and writes an animation.
