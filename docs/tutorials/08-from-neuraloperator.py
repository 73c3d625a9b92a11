# %% [markdown]
# # 8. From neuraloperator in three lines
#
# You have a model of [neuraloperator](https://github.com/neuraloperator/neuraloperator) 2.0. Keep its weights, get
# mixed precision on every device and grid size, a certificate, a plan and an export.

# %%
import torch
from neuralop.models import FNO as TheirFNO

torch.manual_seed(0)
theirs = TheirFNO(
    n_modes=(16, 16), in_channels=3, out_channels=1, hidden_channels=32, n_layers=4
).eval()
x = torch.randn(4, 3, 64, 64)

# %% [markdown]
# ## The three lines

# %%
import halfwave as hw

ours = hw.interop.from_neuralop(theirs)
hw.set_precision(ours, "mixed")

# %% [markdown]
# ## The same function?
# In fp32 the answers agree to rounding. A model with something that cannot be carried over is refused in one line.

# %%
with torch.no_grad():
    reference = theirs(x)
    for name, dtype in (("full", None), ("mixed", "fp16"), ("mixed", "bf16")):
        hw.set_precision(ours, hw.Policy.named(name, dtype=dtype))
        difference = float((ours(x) - reference).norm() / reference.norm())
        print(f"{name:6}{dtype or '':6} differs from theirs by {difference:.1e}")

# %% [markdown]
# (An untrained network rounds as a trained one does: what half costs *your* weights the
# [certificate](02-is-half-safe.md) says.)
#
# ## The same step, fewer bytes
# Counted by the same counter around both: the largest sum of live tensor storages in a forward and backward pass, on
# fields large enough that they matter (on small ones the weights do, which are fp32 in every policy).

# %%
large = torch.randn(8, 3, 128, 128)


def count(model: torch.nn.Module) -> int:
    model.zero_grad(set_to_none=True)
    with hw.measure.LiveBytes() as live:
        model(large).square().mean().backward()
    return live.peak()


sizes = {"neuraloperator, fp32": count(theirs)}
for precision in ("full", "mixed"):
    hw.set_precision(ours, precision)
    sizes[f"halfwave, {precision}"] = count(ours)
for name, size in sizes.items():
    print(f"{name:22} {size / 2**20:8.1f} MiB at the peak")

# %% [markdown]
# ## Your own module around their layers
# Their spectral convolutions and channel MLPs inside a module of yours become ours in place; the rest stays.


# %%
class Mine(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.operator = TheirFNO(
            n_modes=(8, 8), in_channels=1, out_channels=1, hidden_channels=8, n_layers=2
        )
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * self.operator(x)


mine = Mine().eval()
field = torch.randn(1, 1, 32, 32)
with torch.no_grad():
    before = mine(field)
    hw.interop.convert(mine, "mixed")
    print(
        f"converted in place; the answer moved by {float((mine(field) - before).norm() / before.norm()):.1e}"
    )

# %% [markdown]
# And back: `hw.interop.to_neuralop_state_dict(ours)`. All arguments side by side:
# [from neuraloperator](../how-to/from-neuraloperator.md).
