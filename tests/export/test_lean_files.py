"""ONNX files hold nothing twice, and what is not a weight takes few of their bytes."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import halfwave as hw
from halfwave.export import build_program
from halfwave.export.onnx_file import build_onnx
from halfwave.export.onnx_scaled import column_scales, share_scaled

# On grids whose matrices have more elements than the exporter itself compares (1024).
MODELS = {
    "TFNO": (lambda: hw.TFNO((12, 12), 1, 1, 32, n_layers=2, factorization="cp", rank=0.1), (40, 40)),
    "SFNO": (lambda: hw.SFNO((16, 16), 1, 1, 48, n_layers=2), (36, 72)),
}


@pytest.mark.parametrize("name", MODELS)
def test_half_weights_take_half_the_bytes_and_nothing_is_stored_twice(name):
    build, grid = MODELS[name]
    torch.manual_seed(0)
    model = build().eval()
    files = [build_onnx(build_program(model, grid, weights=weights)) for weights in ("fp32", "fp16")]
    whole, half = (file.ByteSize() for file in files)
    assert half <= 0.56 * whole
    for file in files:
        assert not file.graph.value_info
        stored = [(t.data_type, tuple(t.dims), numpy_helper.to_array(t).tobytes()) for t in file.graph.initializer]
        assert len(set(stored)) == len(stored)
        assert any(t.name.endswith("_scales") for t in file.graph.initializer)  # transforms back
        onnx.checker.check_model(file, full_check=True)


def _file_with(matrices):
    """y = x plus the sums of all matrices."""
    total = "x"
    nodes = []
    for name in matrices:
        nodes.append(helper.make_node("ReduceSum", [name], [f"{name}_sum"], keepdims=0))
        nodes.append(helper.make_node("Add", [total, f"{name}_sum"], [f"{name}_total"]))
        total = f"{name}_total"
    nodes.append(helper.make_node("Identity", [total], ["y"]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    stored = [numpy_helper.from_array(values, name) for name, values in matrices.items()]
    graph = helper.make_graph(nodes, "sums", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_matrices_that_are_others_scaled_are_stored_as_scales():
    random = np.random.default_rng(0)
    there = random.standard_normal((3, 20, 30)).astype(np.float32)
    there[:, 4] = 0  # the sines of frequency 0
    points, modes = (random.uniform(1, 2, n).astype(np.float32) for n in (30, 20))
    matrices = {
        "there": there,
        "by_points": there * points,
        "by_modes": there * modes[:, None],
        "back": there.swapaxes(1, 2) * modes,
        "back_by_points": there.swapaxes(1, 2) * points[:, None],
        "other": random.standard_normal((3, 20, 30)).astype(np.float32),
        "nearly": there * (1 + 1e-5 * random.standard_normal(there.shape)).astype(np.float32),
    }
    file = _file_with(matrices)
    share_scaled(file)
    shapes = {tensor.name: list(tensor.dims) for tensor in file.graph.initializer}
    assert shapes == {
        "there": [3, 20, 30],
        "by_points_scales": [30],
        "by_modes_scales": [20, 1],
        "back_scales": [20],
        "back_by_points_scales": [30, 1],
        "other": [3, 20, 30],
        "nearly": [3, 20, 30],
    }
    file.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in matrices)
    session = onnxruntime.InferenceSession(file.SerializeToString())
    for name in ("by_points", "by_modes", "back", "back_by_points"):
        found = session.run([name], {"x": np.zeros(1, np.float32)})[0]
        np.testing.assert_allclose(found, matrices[name], rtol=3e-7)


def test_scales_of_columns_that_are_nothing():
    zero, some = np.zeros((4, 2), np.float32), np.ones((4, 2), np.float32)
    np.testing.assert_array_equal(column_scales(some, zero), [0, 0])
    assert column_scales(zero, some) is None
    assert column_scales(some * np.float32(np.nan), some) is None
