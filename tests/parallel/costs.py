"""Checks in several processes: what a process holds and what it sends, counted."""

import torch
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import halfwave as hw
from halfwave.measure import measure_step, training_step
from halfwave.models import pointwise
from halfwave.parallel import GridLayout, count_wire, gradient_bytes, plan_traffic, split_sizes
from halfwave.parallel.traffic import transposed_bytes
from halfwave.planner import plan_mesh


def dot(prediction, target):
    return (prediction * target).sum()


def mesh():
    return init_device_mesh("cpu", (dist.get_world_size(),))


def measured(model, x, y):
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    training_step(model, dot, optimizer, (x, y))
    return measure_step(model, dot, optimizer, (x, y))


def point_bytes(queries, numbers, itemsize, ranks):
    """What a process sends in a training step for the output kernel of a GINO: shares of sums, and gradients back.

    With Q query points, of which q are its own, and `numbers` = functions x channels at each,

        itemsize · numbers · [ (Q - q) + (P - 1) q ].
    """
    own = split_sizes(queries, ranks.size)[ranks.rank]
    return itemsize * numbers * ((queries - own) + (ranks.size - 1) * own)


def peak_bytes():
    """A training step in 3 dimensions: at most 0.6 of one process on two, 0.35 on four."""
    pointwise.WHOLE_ELEMENTS = 0  # as fields that do not fit one process are: too large for one piece
    torch.manual_seed(0)
    most = {2: 0.6, 4: 0.35}[dist.get_world_size()]
    model = hw.FNO((8, 8, 8), 1, 1, 16, n_layers=2)
    x, y = (torch.randn(1, 1, 32, 32, 32) for _ in range(2))
    layout = GridLayout.of(mesh(), (0,))
    cut = layout.piece_of((32, 32, 32)).cut
    own = measured(hw.parallelize(model, mesh()), cut(x).clone(), cut(y).clone())
    alone = measured(model, x, y)
    ratio = own.peak_memory_bytes / alone.peak_memory_bytes
    print(f"peak of process {dist.get_rank()} of {dist.get_world_size()}: {ratio:.3f} of one process", flush=True)
    assert ratio <= most
    assert own.parameter_bytes <= 1.05 * most * alone.parameter_bytes
    layers = {"channels": 1, "loss": dot, "policy": "full"}
    planned = plan_mesh(model, (32, 32, 32), f"grid={dist.get_world_size()}", **layers)
    print(f"planned {planned.peak_bytes / own.peak_memory_bytes:.4f} of counted", flush=True)
    assert abs(planned.peak_bytes / own.peak_memory_bytes - 1) < 0.02


def sent_bytes():
    """Of every layer what the formula says, in full and in half precision, on odd grids; gradients beside it."""
    for n_modes, grid, policy in (
        ((5, 6), (9, 10), "full"),
        ((4, 4, 4), (6, 7, 9), hw.Policy.named("mixed", dtype="bf16")),
        ((7,), (19,), "full"),
    ):
        model = hw.FNO(n_modes, 1, 1, 6, n_layers=3, precision=policy)
        parallel = hw.parallelize(model, mesh())
        piece = GridLayout.of(mesh(), (0,)).piece_of(grid)
        with count_wire() as wire:
            parallel(torch.randn(2, 1, *piece.grid)).sum().backward()
        layers = [plan_traffic(block.conv, grid, 2) for block in parallel.blocks]
        assert wire.sent["modes"] == sum(layer.modes for layer in layers) > 0
        assert wire.sent["gradients"] == gradient_bytes(parallel, dist.get_world_size())
        assert wire.calls["modes"] == 4 * len(layers)
        assert set(wire.sent) == {"modes", "gradients", "grid"}
        planned = plan_mesh(
            model, grid, f"grid={dist.get_world_size()}", channels=1, batch=2, loss=lambda y, _: y.sum(), policy=policy
        )
        if dist.get_rank() == 0:  # the process that is planned
            assert planned.sent == dict(wire.sent)


def sent_bytes_of_points():
    """Of a GINO's output kernel what the formula says, beside the modes of its blocks."""
    model = hw.GINO(
        2, 3, fno_n_modes=(4, 4, 4), fno_hidden_channels=6, fno_n_layers=2, fno_in_channels=2, in_gno_radius=0.4,
        out_gno_radius=0.4, in_gno_channel_mlp_hidden_layers=(8,), out_gno_channel_mlp_hidden_layers=(8,),
    )  # fmt: skip
    parallel, layout, grid = hw.parallelize(model, mesh()), parallel_layout(), (5, 4, 4)
    axes = [torch.linspace(0, 1, n) for n in grid]
    nodes = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
    first = layout.piece_of(grid).spans[0]
    with count_wire() as wire:
        answer = parallel(
            torch.rand(1, 9, 3), nodes[None, first.start : first.stop], torch.rand(1, 11, 3), torch.rand(2, 9, 2)
        )
        answer.sum().backward()
    assert wire.sent["points"] == point_bytes(11, 2 * 6, 4, layout.ranks)
    assert wire.sent["modes"] == sum(plan_traffic(block.conv, grid, 2).modes for block in parallel.blocks)
    assert set(wire.sent) == {"modes", "points", "gradients", "grid"}


def fewer_than_transposes():
    """128^3 with 32^3 modes: at most 0.15 of what a distributed FFT sends, both counted as they are sent."""
    grid, ranks = (128, 128, 128), GridLayout.of(mesh(), (0,)).ranks
    conv = hw.FNO((32, 32, 32), 1, 1, 1, n_layers=1, lifting_channel_ratio=1, projection_channel_ratio=1)
    parallel = hw.parallelize(conv, mesh())
    piece = GridLayout.of(mesh(), (0,)).piece_of(grid)
    x = torch.randn(1, 1, *piece.grid)
    with count_wire() as wire:
        parallel(x).sum().backward()
    expected = plan_traffic(parallel.blocks[0].conv, grid, 1)
    assert wire.sent["modes"] == expected.modes
    with count_wire() as transposes:
        for _ in range(2):  # forward and backward
            spectrum = transposed_fft(x[0, 0], ranks)
            there_and_back(spectrum, ranks, grid)
    assert transposes.sent["modes"] == expected.transposes == transposed_bytes(parallel_layout(), grid, 2)
    ratio = wire.sent["modes"] / transposes.sent["modes"]
    print(f"process {ranks.rank} of {ranks.size} sends {ratio:.3f} of the transposes", flush=True)
    assert ratio <= 0.15


def parallel_layout():
    return GridLayout.of(mesh(), (0,))


def transposed_fft(field, ranks):
    """A slab FFT: the other axes, a transpose, the first axis. (n, N2, N3) to (N1, n2, N3/2+1)."""
    local = torch.fft.rfftn(field, dim=(1, 2)).movedim(1, 0).contiguous()
    parts = ranks.exchange(local, split_sizes(local.shape[0], ranks.size))
    columns = torch.cat(list(parts.movedim(1, 2)), dim=0) if ranks.size > 1 else parts[0].movedim(1, 0)
    return torch.fft.fft(columns, dim=0)


def there_and_back(spectrum, ranks, grid):
    """The second transpose of a pass."""
    ranks.exchange(torch.fft.ifft(spectrum, dim=0).contiguous(), split_sizes(grid[0], ranks.size))


def the_fft_is_one():
    """The reference that is counted is a transform: its columns are those of torch's own FFT."""
    ranks = parallel_layout().ranks
    field = torch.randn(8, 12, 10, dtype=torch.float64)
    piece = parallel_layout().piece_of((8, 12, 10))
    found = transposed_fft(piece.cut(field), ranks)
    sizes = split_sizes(12, ranks.size)
    expected = torch.fft.rfftn(field).split(sizes, dim=1)[ranks.rank]
    torch.testing.assert_close(found, expected)
