"""A tiny dataset and a tiny trained run, made once for all command-line tests."""

import pytest
import torch

from halfwave.cli import run

TINY = ["--epochs", "2", "--batch-size", "4", "--arguments", "n_modes=[4,4]", "hidden_channels=6", "n_layers=2"]


@pytest.fixture(scope="session")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "darcy.h5"
    assert (
        run(
            [
                "data",
                "darcy",
                "--resolution",
                "16",
                "--n-train",
                "8",
                "--n-test",
                "3",
                "--workers",
                "1",
                "--out",
                str(path),
            ]
        )
        == 0
    )
    return path


@pytest.fixture(scope="session")
def trained(dataset, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "tiny"
    torch.set_num_threads(1)
    assert run(["train", "darcy", "--data", str(dataset), "--out", str(out), *TINY]) == 0
    return out


@pytest.fixture
def command(capsys):
    """Run a command line; returns exit code, standard output, standard error."""

    def call(*arguments):
        code = run([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def fails(command):
    """Run a command that must fail: one line on standard error with `message`, no traceback."""

    def call(code, message, *arguments):
        found, _, err = command(*arguments)
        lines = [line for line in err.splitlines() if line.startswith("halfwave: ")]
        assert found == code, err
        assert len(lines) == 1, err
        assert message in lines[0]
        assert "Traceback" not in err

    return call
