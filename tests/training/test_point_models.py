"""A model of point clouds and a dataset on a grid."""

import pytest

from halfwave.errors import InputError
from halfwave.training import train


def test_gino_on_a_grid_is_refused_before_anything_is_written(config, tmp_path):
    run = tmp_path / "run"
    arguments = {"fno_n_modes": [4, 4], "gno_coord_dim": 2, "fno_hidden_channels": 4, "fno_n_layers": 1}
    with pytest.raises(InputError, match=r"GINO cannot be applied to .*smoothing\.h5"):
        train(config.model_copy(update={"model": "GINO", "arguments": arguments}), run, quiet=True)
    assert not run.exists()
