"""Data and models of the caller's own: every way in gives the same run, and any module trains, dies and resumes."""

import numpy as np
import pytest
import torch
from deaths import Stop, assert_same_run, rows_of, stop_after, tensors_of
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import halfwave as hw
from halfwave.errors import InputError
from halfwave.training import TrainConfig, load, read_config

ARGUMENTS = {"n_modes": [4], "hidden_channels": 4, "n_layers": 1}


def pairs(n=20, points=16):
    x = np.random.default_rng(0).standard_normal((n, 1, points)).astype(np.float32)
    return x, np.cumsum(x, axis=-1) / 4


class Items(Dataset):
    """Pairs as dictionaries, made one by one."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"x": torch.from_numpy(self.x[index]), "y": self.y[index]}


class Transformer(nn.Module):
    """A small transformer over the points of a line, with dropout, which draws random numbers."""

    def __init__(self, width=8):
        super().__init__()
        self.lift = nn.Conv1d(1, width, 3, padding=1)
        self.layer = nn.TransformerEncoderLayer(width, 2, 16, dropout=0.1, batch_first=True)
        self.project = nn.Conv1d(width, 1, 1)

    def forward(self, x):
        return self.project(self.layer(self.lift(x).transpose(1, 2)).transpose(1, 2))


def ways():
    x, y = pairs()
    return {
        "arrays": (x, y),
        "tensors": [torch.from_numpy(x), torch.from_numpy(y)],
        "no channels": (x[:, 0], y[:, 0]),
        "names": {"x": x, "y": y},
        "pairs": TensorDataset(torch.from_numpy(x), torch.from_numpy(y)),
        "dictionaries": Items(x, y),
        "splits": {"train": (x[:16], y[:16]), "test": Items(x[16:], y[16:])},
    }


def short(data, run_dir, **changes):
    settings = {"model": "FNO", "arguments": ARGUMENTS, "epochs": 1, "precision": "full", **changes}
    return hw.train(data=data, run_dir=run_dir, quiet=True, **settings)


def test_every_way_in_is_the_same_run(tmp_path):
    np.savez(tmp_path / "d.npz", **dict(zip("xy", pairs(), strict=True)))
    short(tmp_path / "d.npz", tmp_path / "file")
    for name, data in ways().items():
        short(data, tmp_path / name)
        assert_same_run(tmp_path / "file", tmp_path / name)


def test_a_run_records_what_it_was_given_and_asks_for_it_again(tmp_path):
    short(pairs(), tmp_path / "run")
    config = read_config(tmp_path / "run" / "config.json")
    assert config.data == "given: samples: x ndarray 20 x 1 x 16 float32, y ndarray 20 x 1 x 16 float32"
    with pytest.raises(InputError, match=r"were samples: x ndarray 20 x 1 x 16 float32.*give --data FILE"):
        _ = config.source
    x, y = pairs()
    with pytest.raises(InputError, match="is not the file that"):
        short((x, 2 * y), tmp_path / "run")


def test_an_array_is_described_and_not_printed(tmp_path):
    x, y = pairs()
    for wrong in (x, (x, y, y), {"x": x}):
        with pytest.raises(InputError) as caught:
            short(wrong, tmp_path / "run")
        assert "ndarray" in str(caught.value)
        assert len(str(caught.value)) < 300
    with pytest.raises(InputError, match=r"epochs: .*got ndarray 20 x 1 x 16 float32"):
        short((x, y), tmp_path / "run", epochs=x)
    with pytest.raises(InputError, match=r"y is ndarray 20 <U1; real numbers"):
        short((x, np.array(["a"] * 20)), tmp_path / "run")


@pytest.mark.parametrize("updates", [0, 3, 7])
def test_a_module_of_ones_own_dies_and_resumes_bit_for_bit(tmp_path, monkeypatch, updates):
    settings = {"epochs": 3, "batch_size": 6, "precision": "schedule", "phases": ((0.5, "amp"), (0.5, "full"))}
    settings |= {"dtype": "bf16", "clip": 1.0, "checkpoint_steps": 1, "scheduler": "one-cycle"}

    def run(where, seed):
        torch.manual_seed(seed)
        return hw.train(data=pairs(), model=Transformer(), run_dir=tmp_path / where, quiet=True, **settings)

    run("whole", 5)
    with monkeypatch.context() as patch:
        stop_after(patch, updates)
        with pytest.raises(Stop):
            run("dead", 5)
    # Other weights than at the start: what counts is in the checkpoint.
    run("dead", 5 if updates == 0 else 6)
    assert_same_run(tmp_path / "whole", tmp_path / "dead")
    assert {row["policy"] for row in rows_of(tmp_path / "dead")} == {"amp", "full"}


def test_a_module_is_trained_in_place_saved_and_loaded(tmp_path):
    x, y = pairs()
    module = Transformer()
    hw.train(data=(x, y), model=module, run_dir=tmp_path / "run", epochs=2, precision="full", quiet=True)
    path = tmp_path / "run" / "model.safetensors"
    loaded = load(path, model=Transformer())
    module.eval()
    with torch.no_grad():
        inner = loaded.x_normalizer.encode(torch.from_numpy(x[:2]))
        torch.testing.assert_close(loaded(torch.from_numpy(x[:2])), loaded.y_normalizer.decode(module(inner)))
    with pytest.raises(InputError, match=r"weights of a Transformer of another program.*model=\.\.\."):
        load(path)
    with pytest.raises(InputError, match="is of another model"):
        load(path, model=Transformer(width=4))


def test_a_module_refuses_what_it_cannot_honour(tmp_path):
    with pytest.raises(InputError, match="no layer that precision half acts on"):
        hw.train(data=pairs(), model=Transformer(), run_dir=tmp_path / "run", precision="half", quiet=True)
    with pytest.raises(InputError, match="a built one has them"):
        hw.train(data=pairs(), model=Transformer(), arguments={"width": 3}, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_built_operator_trains_as_its_name_and_arguments(tmp_path):
    torch.manual_seed(0)
    model = hw.FNO(**ARGUMENTS, in_channels=1, out_channels=1)
    short(pairs(), tmp_path / "built", model=model, arguments={})
    short(pairs(), tmp_path / "named")
    assert_same_run(tmp_path / "built", tmp_path / "named")
    assert read_config(tmp_path / "built" / "config.json").model == "FNO"


def test_settings_follow_from_the_data(tmp_path):
    x = np.random.default_rng(0).standard_normal((10, 2, 24, 32)).astype(np.float32)
    data = {"train": (x[:8], x[:8, :1]), "test": (x[8:], x[8:, :1])}
    hw.train(data=data, model="fno", run_dir=tmp_path / "box", epochs=1, precision="full", quiet=True)
    config = read_config(tmp_path / "box" / "config.json")
    assert config.arguments["n_modes"] == [12, 16]
    assert config.arguments["domain_padding"] == [0.125, 0.125]
    assert config.batch_size == 1
    settings = {"domain": "torus", "arguments": {"hidden_channels": 4}, "epochs": 1}
    hw.train(data=data, model="tfno", run_dir=tmp_path / "torus", quiet=True, **settings)
    config = read_config(tmp_path / "torus" / "config.json")
    assert "domain_padding" not in config.arguments
    assert config.arguments["hidden_channels"] == 4
    assert config.arguments["factorization"] == "tucker"
    with pytest.raises(InputError, match="sfno is for fields on a sphere"):
        hw.train(data=data, model="sfno", run_dir=tmp_path / "sphere")
    with pytest.raises(InputError, match="gino is not for"):
        hw.train(data=data, model="gino", run_dir=tmp_path / "cloud")


def test_a_finished_run_goes_on_when_asked_for_more(tmp_path, capsys):
    short(pairs(), tmp_path / "run", epochs=2)
    before = rows_of(tmp_path / "run")
    assert short(pairs(), tmp_path / "run", epochs=2).epochs == 2
    settings = {"model": "FNO", "arguments": ARGUMENTS, "epochs": 4, "precision": "full"}
    assert hw.train(data=pairs(), run_dir=tmp_path / "run", **settings).epochs == 4
    assert "finished after 2 epochs: going on to 4" in capsys.readouterr().err
    assert rows_of(tmp_path / "run")[:2] == before
    assert read_config(tmp_path / "run" / "config.json").epochs == 4
    with pytest.raises(InputError, match="epochs: 4 -> 3"):
        short(pairs(), tmp_path / "run", epochs=3)


def test_a_run_begins_from_another_at_another_resolution_and_precision(tmp_path):
    short(pairs(), tmp_path / "first", epochs=3)
    finer = pairs(points=32)
    short(finer, tmp_path / "second", init_from=str(tmp_path / "first"), precision="mixed", learning_rate=1e-30)
    a, b = tensors_of(tmp_path / "first"), tensors_of(tmp_path / "second")
    assert all(torch.allclose(a[name], b[name], atol=1e-6) for name in a)
    first, second = (load(tmp_path / run / "model.safetensors") for run in ("first", "second"))
    torch.testing.assert_close(first.x_normalizer.std, second.x_normalizer.std)  # the weights were trained with it
    with pytest.raises(InputError, match="does not fit the model"):
        short(finer, tmp_path / "third", init_from=str(tmp_path / "first"), arguments={**ARGUMENTS, "n_layers": 2})
    with pytest.raises(InputError, match="does not exist"):
        short(finer, tmp_path / "third", init_from=str(tmp_path / "nowhere"))


def test_config_takes_objects_and_goes_to_other_processes():
    import pickle

    x, y = pairs(6)
    config = TrainConfig(data=(x, y), model=Transformer())
    again = pickle.loads(pickle.dumps(config))
    assert again.source.fingerprint() == config.source.fingerprint()
    assert isinstance(again.module, Transformer)
    assert config.model_copy(update={"epochs": 3}).module is config.module
