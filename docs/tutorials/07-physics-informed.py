# %% [markdown]
# # 7. A physics-informed loss
#
# The equation itself can teach, where solved samples are few. We learn f → u of −Δu + u + u³ = f on the torus, once
# from 8 solved samples, once from the same 8 and the residual of the equation on forces nobody has solved for.
#
# Derivatives pass through every layer in every policy, so the residual needs nothing special; on a torus the
# derivatives of the answer are those of its Fourier series, which are exact.

# %%
import matplotlib.pyplot as plt
import torch

import halfwave as hw
from halfwave.domains import Torus

torch.manual_seed(0)
N, torus = 24, Torus((2 * torch.pi, 2 * torch.pi))

# %% [markdown]
# ## Forces, and a solver for the truth
# Random smooth forces; u by Newton's method with conjugate gradients would do, a damped fixed point is shorter: with
# c = 4, (−Δ + 1 + c) u ← f − u³ + c u, in float64 until nothing changes.

# %%
k = torch.fft.fftfreq(N, 1 / N, dtype=torch.float64)
laplace = (k[:, None] ** 2 + k[None, :] ** 2).double()


def draw_forces(count: int) -> torch.Tensor:
    spectrum = (
        torch.fft.fft2(torch.randn(count, 1, N, N, dtype=torch.float64))
        * 60
        * (9 + laplace) ** -1.5
    )
    return torch.fft.ifft2(spectrum).real


def solve(f: torch.Tensor, c: float = 4.0) -> torch.Tensor:
    u = torch.zeros_like(f)
    for _ in range(300):
        u = torch.fft.ifft2(torch.fft.fft2(f - u**3 + c * u) / (laplace + 1 + c)).real
    return u


forces = draw_forces(8 + 128 + 32)
u = solve(forces)
linear = torch.fft.ifft2(torch.fft.fft2(forces) / (laplace + 1)).real
print(
    f"residual of the solver: {float((torch.fft.ifft2(laplace * torch.fft.fft2(u)).real + u + u**3 - forces).abs().max()):.1e}"
)
print(f"without the cube one would be off by {float((linear - u).norm() / u.norm()):.0%}")
forces, u = forces.float(), u.float()
labelled, unlabelled, test = slice(0, 8), slice(8, 136), slice(136, None)

# %% [markdown]
# ## The residual as a loss
# r = −Δu + u + u³ − f, measured in H⁻¹ (each wave of it divided by its wave number): that norm follows the error of u,
# while in L2 the finest waves of the grid would outweigh all others.

# %%
weight = (1 / (1 + laplace)).float()


def residual_loss(answer: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    u_x, u_y = torus.gradient(answer)
    laplacian = torus.gradient(u_x)[0] + torus.gradient(u_y)[1]
    r_hat = torch.fft.fft2(-laplacian + answer + answer**3 - f) * weight
    f_hat = torch.fft.fft2(f) * weight
    return (r_hat.flatten(1).norm(dim=1) / f_hat.flatten(1).norm(dim=1)).mean()


def relative(answer: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return ((answer - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).mean()


# %%
def fit(physics: bool, precision: str, steps: int = 240) -> tuple[hw.FNO, list[float]]:
    torch.manual_seed(1)
    model = hw.FNO(
        (10, 10),
        1,
        1,
        hidden_channels=12,
        n_layers=2,
        positional_embedding=None,
        precision=precision,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=steps)
    curve = []
    for step in range(steps):
        loss = relative(model(forces[labelled]), u[labelled])
        if physics:
            f = forces[unlabelled][torch.randint(128, (8,))]
            loss = loss + residual_loss(model(f), f)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rates.step()
        if step % 20 == 19:
            with torch.no_grad():
                curve.append(float(relative(model(forces[test]), u[test])))
    return model, curve


results = {
    "labels alone, full": fit(False, "full"),
    "labels and equation, full": fit(True, "full"),
    "labels and equation, mixed": fit(True, "mixed"),
}
for name, (_, curve) in results.items():
    print(f"{name:28} test error {curve[-1]:.2%}")

# %%
fig, (left, *panels) = plt.subplots(1, 4, figsize=(13, 3), constrained_layout=True)
for name, (_, curve) in results.items():
    left.semilogy(range(20, 241, 20), curve, label=name)
left.set(title="test error by step", xlabel="step")
left.legend(fontsize=7)
model = results["labels and equation, mixed"][0]
with torch.no_grad():
    answer = model(forces[test][:1])
for ax, field, title in zip(
    panels, (u[test][:1], answer, answer - u[test][:1]), ("truth", "answer", "error"), strict=True
):
    fig.colorbar(ax.imshow(field[0, 0], cmap="RdBu_r"), ax=ax, shrink=0.8)
    ax.set(title=title, xticks=[], yticks=[])

# %% [markdown]
# Second derivatives of an answer in half precision amplify its rounding by the square of the wave number: the mixed
# training has a floor that the full one has not. H⁻¹ takes most of that away again, which is the other reason for it.
# `examples/pino_darcy.py` does the same for Darcy flow with a boundary, with derivatives *of the network* by
# `torch.func.jvp` besides.
