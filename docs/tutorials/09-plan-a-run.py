# %% [markdown]
# # 9. Plan a run for a GPU that you do not have
#
# Will it fit, and in which batch? The planner runs the real forward pass, backward pass and update on PyTorch's `meta`
# device, where tensors have shapes and no memory, and counts every storage. No GPU is needed, and no memory either.

# %%
import matplotlib.pyplot as plt

import halfwave as hw
from halfwave.planner import (
    Roofline,
    format_bytes,
    get_device,
    largest_batch,
    plan_cost,
    plan_memory,
)

# %% [markdown]
# A model that no laptop trains: fields of 1024 × 1024 points, 64 channels, 4 layers.

# %%
model = hw.FNO((64, 64), in_channels=1, out_channels=1, hidden_channels=64, n_layers=4)
plans = {
    p: plan_memory(model, (8, 1, 1024, 1024), policy=p, device="cuda")
    for p in ("full", "amp", "half", "mixed")
}
for name, plan in plans.items():
    print(
        f"{name:6} peak {format_bytes(plan.peak_bytes):>10}   activations {format_bytes(plan.activations):>10}"
    )

# %% [markdown]
# ## What fits into 40 GiB?
# The largest batch whose step fits, with what a CUDA context and the allocator take beside live tensors assumed and
# said in the plan (`plan.overhead`).

# %%
batches = {
    p: largest_batch(model, "40GiB", p, sample=(1, 1024, 1024), device="cuda") for p in plans
}
again = largest_batch(
    model, "40GiB", "mixed", sample=(1, 1024, 1024), device="cuda", recompute=True
)
print("largest batch in 40 GiB:", batches, "and mixed with recompute:", again)

# %% [markdown]
# ## How long?
# A roofline: operations over the vendor's peak rate, or bytes over its bandwidth, whichever is more, operator by
# operator. It is a floor, not a forecast: no GPU has been measured with this library, and the page says so everywhere.

# %%
seconds = {}
for device in ("a100-40gb", "h100"):
    clock = Roofline(get_device(device))
    for policy in plans:
        seconds[device, policy] = plan_cost(
            model, (8, 1, 1024, 1024), clock, policy=policy, device="cuda"
        ).seconds
    fastest = {p: f"{seconds[device, 'full'] / seconds[device, p]:.2f}x" for p in plans}
    print(f"{device:10} planned speed against full precision: {fastest}")

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 3.2), constrained_layout=True)
bottom = [0.0] * len(plans)
for part in ("parameters", "gradients", "optimizer_state", "batch", "activations"):
    values = [getattr(plan, part) / 2**30 for plan in plans.values()]
    left.bar(list(plans), values, bottom=bottom, label=part.replace("_", " "))
    bottom = [b + v for b, v in zip(bottom, values, strict=True)]
left.set(title="a training step of batch 8 at 1024 × 1024, GiB")
left.legend(fontsize=7)
width = 0.4
for i, device in enumerate(("a100-40gb", "h100")):
    right.bar(
        [j + i * width for j in range(len(plans))],
        [1e3 * seconds[device, p] for p in plans],
        width,
        label=device,
    )
right.set(
    title="roofline of a step, ms",
    xticks=[j + width / 2 for j in range(len(plans))],
    xticklabels=list(plans),
)
right.legend()

# %% [markdown]
# ## Which tensors?
# The plan knows what is alive at the peak, by name.

# %%
for tensor in plans["mixed"].at_peak[:6]:
    print(
        f"{format_bytes(tensor.bytes):>10}  {tensor.kind:12} {tensor.dtype:10} {tensor.shape!s:24} {tensor.name}"
    )

# %% [markdown]
# From the command line: `halfwave plan darcy-paper --batch 16 --grid 1024 --device-memory 40GiB`, and
# `--mesh data=2,grid=4` for fields in pieces over devices. Plans are held within 1% of the bytes counted in real steps
# on a CPU by tests, for every model and policy.
