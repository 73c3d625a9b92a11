"""save and load: a round trip, and everything that must be refused."""

import json
import pickle

import pytest
import torch
from safetensors.torch import save_file

from halfwave.data import Normalizer
from halfwave.errors import InputError
from halfwave.models import build_model, set_precision
from halfwave.precision import Policy
from halfwave.training import Operator, load, save
from halfwave.training.saving import read_extra
from halfwave.training.sealed import read_sealed, write_sealed


@pytest.fixture
def file(tmp_path, model):
    path = tmp_path / "model.safetensors"
    save(model, path)
    return path


def refused(path, match, **options):
    with pytest.raises(InputError, match=match) as caught:
        load(path, **options)
    assert "\n" not in str(caught.value)


def test_round_trip_gives_the_same_outputs_and_policy(tmp_path, model):
    set_precision(model, Policy.named("mixed", "bf16"))
    save(model, tmp_path / "m.safetensors", extra={"note": [1, 2]})
    loaded = load(tmp_path / "m.safetensors")
    x = torch.randn(2, 1, 10, 12)
    assert torch.equal(loaded(x), model(x))
    assert loaded.policy == model.policy
    assert not loaded.training
    assert read_extra(tmp_path / "m.safetensors") == {"note": [1, 2]}


def test_an_operator_keeps_its_normalizers(tmp_path, model):
    normalizer = Normalizer(torch.tensor([0.1]), torch.tensor([3.0]))
    operator = Operator(model, normalizer, normalizer)
    save(operator, tmp_path / "m.safetensors")
    loaded = load(tmp_path / "m.safetensors")
    x = torch.randn(2, 1, 10, 12)
    assert isinstance(loaded, Operator)
    assert torch.equal(loaded(x), operator(x))
    assert not torch.equal(loaded(x), model(x))


def test_saving_replaces_a_file_only_when_complete(file, model):
    before = file.read_bytes()
    with pytest.raises(InputError, match="has no config"):
        save(torch.nn.Linear(2, 2), file)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_directory_that_cannot_be_written_is_named(tmp_path, model):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(InputError, match="taken"):
        save(model, tmp_path / "taken" / "m.safetensors")


def test_every_flipped_byte_of_the_header_and_a_sample_of_the_data_is_refused(file):
    good = file.read_bytes()
    header = 8 + int.from_bytes(good[:8], "little")
    step = max(1, (len(good) - header) // 97)
    for position in [*range(0, header, 7), *range(header, len(good), step), len(good) - 1]:
        for flip in (0x01, 0xFF):
            bad = bytearray(good)
            bad[position] ^= flip
            file.write_bytes(bad)
            refused(file, "damaged|not a|truncated|pickle|checksum")
    file.write_bytes(good)
    load(file)


def test_missing_empty_truncated_and_lengthened_files_are_refused(file, tmp_path):
    good = file.read_bytes()
    refused(tmp_path / "none.safetensors", "No such file")
    refused(tmp_path, "Is a directory")
    for content, match in (
        (b"", "is empty"),
        (good[:5], "not a safetensors"),
        (good[:100], "truncated"),
        (good[:-1], "damaged"),
        (good + b"\0", "damaged"),
        (b"# a text file, not tensors", "not a safetensors"),
    ):
        file.write_bytes(content)
        refused(file, match)


def test_a_pickle_in_disguise_is_never_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    path = tmp_path / "model.safetensors"
    path.write_bytes(pickle.dumps(Bomb()))
    refused(path, "pickle")
    torch.save({"a": torch.zeros(2)}, path)
    refused(path, "pickle")
    assert not (tmp_path / "exploded").exists()


def test_a_safetensors_file_of_somebody_else_is_refused(tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({"a": torch.zeros(2)}, path)
    refused(path, "no checksum")
    write_sealed(path, {"a": torch.zeros(2)}, {"kind": "state"})
    refused(path, "'state'")


def test_another_model_is_refused(file):
    refused(file, "holds a FNO: expected UNet", expect="UNet")
    tensors, values = read_sealed(file)
    write_sealed(file, tensors, {**values, "model": "Oracle"})
    refused(file, "unknown model 'Oracle': expected one of")
    write_sealed(file, tensors, {**values, "arguments": {**values["arguments"], "hidden_channels": 5}})
    refused(file, "of another model")
    write_sealed(file, tensors, {**values, "arguments": {**values["arguments"], "hidden": 5}})
    refused(file, "FNO has no argument 'hidden'")
    name = next(iter(tensors))
    write_sealed(file, {k: v for k, v in tensors.items() if k != name}, values)
    refused(file, "only the model has")
    write_sealed(file, {**tensors, "extra": torch.zeros(1)}, values)
    refused(file, "only the file has 'extra'")


def test_sealed_files_hold_any_tensor_and_json(tmp_path):
    base = torch.arange(12.0)
    tensors = {
        "view": base[2:5],
        "transposed": base.reshape(3, 4).t(),
        "same": base,
        "empty": torch.zeros(0, 3),
        "half": base.bfloat16(),
        "flag": torch.tensor(True),
    }
    values = {"text": 'a "sha256":"' + "0" * 64 + '" inside', "numbers": [1, 2.5, None], "γ": {"deep": True}}
    write_sealed(tmp_path / "s.safetensors", tensors, values)
    read, read_values = read_sealed(tmp_path / "s.safetensors")
    assert read_values == json.loads(json.dumps(values))
    assert set(read) == set(tensors)
    assert all(torch.equal(read[name], tensors[name]) and read[name].dtype == tensors[name].dtype for name in tensors)


def test_headers_of_every_length_are_read(tmp_path):
    """A length whose first byte is 0x80 looks like the beginning of a pickle, and is none."""
    path = tmp_path / "s.safetensors"
    for padding in range(0, 264, 8):
        write_sealed(path, {"a": torch.zeros(1)}, {"padding": "x" * padding})
        assert len(read_sealed(path)[1]["padding"]) == padding


def test_build_model_is_what_load_uses(file):
    assert type(load(file)) is type(build_model("FNO", read_sealed(file)[1]["arguments"]))
