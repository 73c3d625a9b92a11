# %% [markdown]
# # 2. Is half precision safe for my model?
#
# A certificate answers with numbers: how far rounding moves an answer on your inputs, what it will do on inputs that
# are not here yet, and whether the grid costs more than the format.

# %%
import matplotlib.pyplot as plt

import halfwave as hw
from halfwave.certificates import sensitivities
from halfwave.data import SmoothDarcy, generate, open_dataset

# %% [markdown]
# A small model, trained in full precision on smooth media. Nothing has to be trained in half to know what half does.

# %%
data = open_dataset(
    generate(SmoothDarcy(resolution=32, deviation=0.5), "smooth.h5", n_train=96, n_test=24)
)
run = hw.train(
    data="smooth.h5", model="FNO", arguments={"n_modes": (10, 10), "hidden_channels": 12, "n_layers": 2},
    epochs=10, batch_size=8, learning_rate=8e-3, scheduler="one-cycle", precision="full", run_dir="runs/smooth", quiet=True,
)  # fmt: skip
print(f"test error in full precision: {run.l2:.2%}")
operator = hw.load("runs/smooth/model.safetensors")
x, y = data.test[list(range(24))]

# %% [markdown]
# ## The certificate

# %%
bf16 = hw.certify(operator, x, hw.Policy.named("mixed", dtype="bf16"), targets=y)
print(bf16)

# %% [markdown]
# Three lines decide. *Rounding moves an answer by*: on these inputs. *90 of 100 new inputs stay below*: a statement
# about inputs of the same kind, from 24 of them, with no assumption on the model. *The error against the truth* with and
# without rounding: whether anyone will notice. Bounds called guaranteed are true and loose.
#
# The same for fp16, which has three more digits (binary), and for fp8, which nothing here multiplies:

# %%
names = ("fp16", "bf16", "fp8_e4m3")
found = {
    n: hw.certify(operator, x[:12], hw.Policy.named("mixed", dtype=n), grid_samples=0)
    for n in names
}
print(f"{'format':10}{'measured':>12}{'predicted':>12}{'90% of new':>12}")
for name, c in found.items():
    print(
        f"{name:10}{c.measured_error.mean():12.3%}{c.predicted_error.mean():12.3%}{c.conformal():12.3%}"
    )

# %% [markdown]
# *Predicted* comes from one run in float64 and its derivatives: the format was not run for it.
#
# ## Where does it come from, and what is the cheapest safe format?
# (Shares are relative to the answer in the units of the data, with the mean that its normalizer adds: smaller than the
# figures above, which are those of the model inside.)

# %%
policy = hw.Policy.named("mixed", dtype="bf16")
shares = sensitivities(operator, x[:4]).shares(policy)
plan = hw.auto_precision(operator, (x, y), max_error=1e-3)
print(plan)

# %%
fig, ax = plt.subplots(figsize=(9, 3.2), constrained_layout=True)
top = sorted(
    ((float(error.mean()), f"{module}: {role}") for (module, role), error in shares.items())
)[-12:]
ax.barh([name for _, name in top], [error for error, _ in top])
ax.set(
    title="what each stage rounds of the answer, mixed bf16", xlabel="relative error of the answer"
)

# %% [markdown]
# ## The rule of thumb
# Rounding ρ that is independent of the model's own error e makes the total √(e² + ρ²). At e = 5% a ρ of 0.4% is
# invisible; at e = 0.3% it is most of the error. So the better your model, the more digits its answer needs:
# [which precision](../how-to/which-precision.md).
