"""torch.compile takes a whole model in one graph, under native and widened half formats."""

import pytest
import torch

from halfwave.models import FNO
from halfwave.precision import Policy


@pytest.mark.parametrize(
    ("name", "dtype", "tolerance"),
    [("full", None, 1e-5), ("mixed", "bf16", 0.02), ("half", "fp16", 0.003)],
)
def test_fullgraph_compile_gives_the_eager_result(name, dtype, tolerance):
    torch.manual_seed(0)
    model = FNO((4, 4), 1, 1, 4, n_layers=1, precision=Policy.named(name, dtype=dtype), backend="gemm")
    x = torch.randn(2, 1, 8, 8)
    eager = model(x)
    eager.square().mean().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    out = torch.compile(model, fullgraph=True, backend="aot_eager")(x)
    out.square().mean().backward()
    assert ((out - eager).norm() / eager.norm()).item() < tolerance
    for gradient, p in zip(expected, model.parameters(), strict=True):
        assert ((p.grad - gradient).norm() / gradient.norm()).item() < 2 * tolerance
