import json

import pytest
import torch

from halfwave.data import Darcy, Normalizer, fit_normalizers, generate, open_dataset
from halfwave.errors import InputError


def test_streaming_equals_all_at_once():
    torch.manual_seed(0)
    values = torch.randn(50, 3, 4, 5) * torch.tensor([1.0, 5.0, 0.01])[:, None, None] + 100
    fitted = Normalizer.fit(values.split([1, 30, 19]))
    torch.testing.assert_close(fitted.mean, values.mean(dim=(0, 2, 3)))
    torch.testing.assert_close(fitted.std, values.double().std(dim=(0, 2, 3), unbiased=False).float())
    encoded = fitted.encode(values)
    assert encoded.mean().abs() < 1e-3
    torch.testing.assert_close(fitted.decode(encoded), values)


def test_fitted_on_the_train_split_only(tmp_path):
    dataset = open_dataset(generate(Darcy(resolution=8), tmp_path / "d.h5", n_train=5, n_test=3))
    x, y = fit_normalizers(dataset.train, batch_size=2)
    train_x, train_y = dataset.train[:]
    torch.testing.assert_close(x.mean[0], train_x.mean())
    torch.testing.assert_close(y.std[0], train_y.std(unbiased=False))


def test_state_goes_through_json():
    normalizer = Normalizer(torch.tensor([1.0, 0.1]), torch.tensor([2.0, 0.3]))
    again = Normalizer.from_state(json.loads(json.dumps(normalizer.state())))
    assert torch.equal(again.mean, normalizer.mean)
    assert torch.equal(again.std, normalizer.std)


def test_constant_channel_encodes_to_zero():
    values = torch.full((4, 1, 8), 0.1)
    assert not Normalizer.fit([values]).encode(values).any()


@pytest.mark.parametrize(
    "state",
    [{}, {"mean": [0.0]}, {"mean": [0.0], "std": [0.0]}, {"mean": [0.0], "std": [1.0, 1.0]}, {"mean": "a", "std": "b"}],
)
def test_bad_states_are_refused(state):
    with pytest.raises(InputError):
        Normalizer.from_state(state)


def test_wrong_channels_and_no_data_are_refused():
    with pytest.raises(InputError, match="2 channels"):
        Normalizer(torch.zeros(2), torch.ones(2)).encode(torch.zeros(1, 3, 4))
    with pytest.raises(InputError, match="no data"):
        Normalizer.fit([])
