"""Model files by a hostile hand, with a checksum that is right: refused in one line, and before they cost anything."""

import hashlib
import random
import resource
import time

import pytest
import torch
from forgeries import forged

import halfwave
from halfwave.data import Normalizer
from halfwave.errors import InputError
from halfwave.models import FNO
from halfwave.training import Operator, initial_model
from halfwave.training.sealed import read_sealed, write_sealed

ARGUMENTS = {"n_modes": (4, 4), "in_channels": 1, "out_channels": 1, "hidden_channels": 6, "n_layers": 2}


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """Tensors and JSON of a file."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    normalizer = Normalizer(torch.zeros(1), torch.ones(1))
    halfwave.save(Operator(FNO(**ARGUMENTS), normalizer, normalizer), path)
    return read_sealed(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_layers": 10**9},
        {"n_layers": 1000},
        {"hidden_channels": 1500},
        {"hidden_channels": 10**12},
        {"n_modes": [10**6, 10**6]},
        {"n_modes": [4] * 60},
        {"projection_channel_ratio": 1e12},
        {"channel_mlp_expansion": 1e300},
        {"resolution_scaling_factor": [[1e9, 1e9]] * 2},
        {"in_channels": {"x": [10**18]}},
    ],
    ids=str,
)
def test_a_larger_model_than_the_file_has_is_not_built(content, changes, tmp_path):
    tensors, values = content
    path = tmp_path / "forged.safetensors"
    write_sealed(path, tensors, {**values, "arguments": {**values["arguments"], **changes}})
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(InputError) as caught:
        halfwave.load(path)
    assert str(path) in str(caught.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024, "kB were taken for it"
    assert time.process_time() - start < 20


def test_a_record_of_anything_is_refused_or_read_and_never_raises_otherwise(content, tmp_path):
    tensors, values = content
    rng, path = random.Random(0), tmp_path / "forged.safetensors"
    outcomes = []
    for _ in range(60):
        made = forged(values, rng)
        write_sealed(path, tensors, made)
        try:
            halfwave.load(path)
            outcomes.append("read")
        except InputError:
            outcomes.append("refused")
    assert outcomes.count("refused") > 20


@pytest.mark.parametrize("values", [{}, {"kind": "model"}, {"kind": "model", "model": 5}, {"kind": ["model"]}], ids=str)
def test_a_record_without_its_parts_is_refused(content, values, tmp_path):
    path = tmp_path / "forged.safetensors"
    write_sealed(path, content[0], values)
    for read in (halfwave.load, initial_model):
        with pytest.raises(InputError):
            read(str(path))


def test_equal_models_are_equal_bytes(tmp_path):
    """Saved many times over: the order of a hash table would differ."""
    digests = set()
    for i in range(12):
        torch.manual_seed(0)
        path = tmp_path / f"{i}.safetensors"
        halfwave.save(FNO(**ARGUMENTS), path, {"b": 1, "a": 2} if i % 2 else {"a": 2, "b": 1})
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(digests) == 1
    other = FNO(**ARGUMENTS)
    halfwave.save(other, tmp_path / "other.safetensors", {"a": 2, "b": 1})
    assert hashlib.sha256((tmp_path / "other.safetensors").read_bytes()).hexdigest() not in digests
