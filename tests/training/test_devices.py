"""Several processes on the CPU: the same losses as one, a clear end when one dies, and a resume."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ellipsoids import GINO, write_clouds

from halfwave.files import write_json
from halfwave.training import TrainConfig, train
from halfwave.training.batches import cut, epoch_order, share
from halfwave.training.records import read_metrics

MODELS = {"FNO": {}, "TFNO": {"factorization": "cp", "rank": 0.5}, "SFNO": {}}
OPTIMIZERS = {"FNO": "adamw_pair", "TFNO": "adamw_pair", "SFNO": "adamw"}
SCRIPT = """
import json, sys
from pathlib import Path
from halfwave.errors import InputError
from halfwave.training import TrainConfig, train

def main():
    configs, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    for name, values in configs.items():
        try:
            print(train(TrainConfig(**values), folder / name, quiet=True).status)
        except InputError as error:
            sys.exit(str(error))

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def settings(data_file):
    """Twelve samples in batches of eleven: shares of six and five, then of one and none.

    AdamW forgives a wrong factor on all gradients; clipping, active in some steps and not in others, does not.
    """
    return TrainConfig(
        data=str(data_file),
        arguments={"n_modes": (4, 4), "hidden_channels": 6, "n_layers": 2},
        epochs=4,
        batch_size=11,
        learning_rate=1e-2,
        precision="full",
        clip=0.7,
    )


def start(command, configs, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    write_json(tmp_path / "configs.json", {name: config.to_dict() for name, config in configs.items()})
    arguments = [*command, str(tmp_path / "script.py"), str(tmp_path / "configs.json"), str(tmp_path)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ddp_and_fsdp_under_torchrun_follow_one_process(settings, tmp_path):
    configs = {}
    for model, extra in MODELS.items():
        single = settings.model_copy(
            update={"model": model, "arguments": {**settings.arguments, **extra}, "optimizer": OPTIMIZERS[model]}
        )
        train(single, tmp_path / model, quiet=True)
        for strategy in ("ddp", "fsdp"):
            configs[f"{model}-{strategy}"] = single.model_copy(update={"strategy": strategy, "devices": 2})
    single = settings.model_copy(
        update={"model": "GINO", "arguments": GINO, "data": str(write_clouds(tmp_path / "clouds.h5"))}
        | {"epochs": 3, "batch_size": 5, "latent_resolution": 6}  # shares of three and two bodies, then of one and none
    )
    train(single, tmp_path / "GINO", quiet=True)
    for strategy in ("ddp", "fsdp"):
        configs[f"GINO-{strategy}"] = single.model_copy(update={"strategy": strategy, "devices": 2})
    # Fewer samples than processes, and evaluations of two passes in one process and of one in the other.
    for n_train, n_test in ((1, 1), (3, 1), (2, 3)):
        few = {"n_train": n_train, "n_test": n_test, "batch_size": 1, "epochs": 2}
        name = f"few{n_train}{n_test}"
        train(settings.model_copy(update=few), tmp_path / name, quiet=True)
        for strategy in ("ddp", "fsdp"):
            configs[f"{name}-{strategy}"] = settings.model_copy(update={**few, "strategy": strategy, "devices": 2})
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    process = start(torchrun, configs, tmp_path)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert output.count("finished") == 2 * len(configs)
    for name in configs:
        found, expected = (read_metrics(tmp_path / folder) for folder in (name, name.split("-")[0]))
        assert [row["step"] for row in found] == [row["step"] for row in expected]
        for column in ("train_loss", "test_l2", *(() if "GINO" in name else ("test_h1",))):
            assert [row[column] for row in found] == pytest.approx([row[column] for row in expected], rel=1e-5)


def test_a_killed_process_ends_the_run_with_a_clear_error_and_the_run_resumes(settings, tmp_path):
    long = settings.model_copy(update={"epochs": 400, "devices": 2, "strategy": "ddp", "patience": 3})
    process = start([sys.executable], {"run": long}, tmp_path)
    deadline = time.monotonic() + 100
    metrics = tmp_path / "run" / "metrics.csv"
    while not (metrics.exists() and read_metrics(tmp_path / "run")):  # after the first checkpoint
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    victim = max(_workers(process.pid))
    os.kill(victim, signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    last = errors.strip().splitlines()[-1]
    assert "SIGKILL" in last or "failed" in last
    assert "Traceback" not in errors
    rows = len(read_metrics(tmp_path / "run"))
    resumed = train(long.model_copy(update={"devices": 1, "strategy": "auto"}), tmp_path / "run", quiet=True)
    assert resumed.status in ("early", "finished")
    assert [row["epoch"] for row in read_metrics(tmp_path / "run")] == list(range(1, resumed.epochs + 1))
    assert resumed.epochs >= rows > 0


def _workers(parent):
    """Processes that `parent` spawned for the run, by their command line (its resource tracker is not one)."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_shares_are_without_overlap_and_complete(ranks):
    for batch in cut(epoch_order(seed=3, epoch=1, samples=11), 4):
        shares = [share(batch, rank, ranks).tolist() for rank in range(ranks)]
        assert sorted(itertools.chain(*shares)) == sorted(batch.tolist())
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_the_order_depends_on_seed_and_epoch_alone():
    first = epoch_order(0, 0, 50)
    assert first.tolist() == epoch_order(0, 0, 50).tolist()
    assert sorted(first.tolist()) == list(range(50))
    assert first.tolist() != epoch_order(0, 1, 50).tolist()
    assert first.tolist() != epoch_order(1, 0, 50).tolist()


def test_an_unknown_accelerator_is_named(settings, tmp_path):
    with pytest.raises(ValueError, match="accelerator 'abacus'"):
        train(settings.model_copy(update={"accelerator": "abacus"}), tmp_path, quiet=True)
