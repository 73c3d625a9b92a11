"""train, end to end on a small dataset."""

import io
import json
import math
import pickle
from collections import Counter

import pytest
import torch
from torch._dynamo.utils import counters
from torch.nn.functional import avg_pool2d

from halfwave.data import open_dataset
from halfwave.display import Display, PlainConsole
from halfwave.domains import Torus
from halfwave.errors import InputError
from halfwave.files import PARTIAL
from halfwave.training import Operator, TrainConfig, evaluate, load, problem, train, train_seeds
from halfwave.training.evaluation import resample
from halfwave.training.records import read_metrics
from halfwave.training.run_directory import claimed
from halfwave.training.trainer import Job, check_model

ARGUMENTS = {"n_modes": (4, 4), "hidden_channels": 6, "n_layers": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory, data_file):
    run_dir = tmp_path_factory.mktemp("runs") / "a"
    arguments = {"n_modes": (4, 4), "hidden_channels": 6, "n_layers": 2}
    config = TrainConfig(
        data=str(data_file), arguments=arguments, epochs=6, batch_size=5, learning_rate=5e-3, precision="full"
    )
    return config, run_dir, train(config, run_dir, quiet=True)


def test_a_run_directory_is_complete(run):
    config, run_dir, result = run
    record = json.loads((run_dir / "config.json").read_text())
    assert TrainConfig(**record["config"]) == config
    assert torch.__version__.startswith(record["environment"]["packages"]["torch"].split("+")[0])
    assert {p.name.split(".")[0] for p in run_dir.iterdir()} == {
        "best", "config", "curves", "events", "metrics", "model", "state", "summary",
    }  # fmt: skip
    assert json.loads((run_dir / "summary.json").read_text())["l2"] == result.l2
    assert (run_dir / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_metrics_have_one_row_per_epoch_and_training_learns(run):
    _, run_dir, result = run
    rows = read_metrics(run_dir)
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row["step"] for row in rows] == [3, 6, 9, 12, 15, 18]
    assert rows[-1]["train_loss"] < 0.9 * rows[0]["train_loss"]
    assert {row["policy"] for row in rows} == {"full"}
    assert all(row["peak_memory_bytes"] > row["activation_bytes"] > 0 for row in rows)
    assert all(row["samples_per_second"] > 0 for row in rows)
    assert rows[-1]["test_l2"] == result.l2


def test_the_run_directory_has_the_figures_that_others_read(run):
    """Scripts rely on these names and on their order."""
    _, run_dir, _ = run
    columns = (
        "epoch,step,phase,policy,train_loss,test_l2,test_h1,learning_rate,loss_scale,skipped_steps,seconds,"
        "samples_per_second,peak_memory_bytes,activation_bytes,allocator_peak_bytes,zero_targets,test_l2_full,test_h1_full"
    )
    assert (run_dir / "metrics.csv").read_text().splitlines()[0] == columns
    assert list(json.loads((run_dir / "summary.json").read_text())) == [
        "status", "epochs", "l2", "h1", "train_loss", "samples_per_second", "peak_memory_bytes", "activation_bytes",
        "resolutions", "zero_targets", "l2_full", "h1_full",
    ]  # fmt: skip


def test_the_dataset_is_opened_and_the_model_built_once(config, tmp_path, monkeypatch):
    calls = Counter()
    for name in ("open_any", "build_model"):
        original = getattr(problem, name)
        monkeypatch.setattr(problem, name, lambda *a, n=name, f=original: (calls.update([n]), f(*a))[1])
    train(config, tmp_path, quiet=True)
    assert calls == {"open_any": 1, "build_model": 1}


def test_the_check_of_a_model_leaves_no_trace_in_it(config):
    """Neither in its weights nor in what it has settled, nor in the random numbers that follow."""
    fresh, checked = Job(config), Job(config)
    check_model(checked)
    numbers = torch.get_rng_state()
    before, after = fresh.model.state_dict(), checked.model.state_dict()
    assert torch.equal(torch.get_rng_state(), numbers)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not any(module.settled for module in checked.model.modules() if hasattr(module, "settled"))


def test_a_job_goes_to_another_process_as_its_config(config):
    job = Job(config)
    assert job.model is job.model
    sent = pickle.loads(pickle.dumps(job))
    assert vars(sent) == {"config": config}


def test_the_learning_rate_is_a_cosine_that_ends_at_zero(run):
    config, run_dir, _ = run
    rates = [row["learning_rate"] for row in read_metrics(run_dir)]
    expected = [config.learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / 6)) for epoch in range(1, 7)]
    assert rates == pytest.approx(expected, abs=1e-12)


def test_the_saved_model_needs_nothing_else(run):
    config, run_dir, result = run
    operator = load(run_dir / "model.safetensors")
    assert isinstance(operator, Operator)
    dataset = open_dataset(config.data)
    errors = evaluate(operator, dataset.test)
    assert errors["l2"] == pytest.approx(result.l2, rel=1e-5)
    assert errors["h1"] == pytest.approx(result.h1, rel=1e-5)


def test_a_finished_run_is_not_run_again(run):
    config, run_dir, result = run
    before = (run_dir / "model.safetensors").stat().st_mtime_ns
    assert train(config, run_dir, quiet=True) == result
    assert (run_dir / "model.safetensors").stat().st_mtime_ns == before


def test_the_same_seed_gives_the_same_run_and_another_does_not(run, tmp_path):
    config, _, result = run
    again = train(config, tmp_path / "again", quiet=True)
    other = train(config.model_copy(update={"seed": 1}), tmp_path / "other", quiet=True)
    assert again.l2 == result.l2
    assert other.l2 != result.l2


def test_accumulating_small_batches_is_one_large_batch(data_file, tmp_path):
    small, large = (
        train(
            TrainConfig(
                data=str(data_file), arguments=ARGUMENTS, epochs=2, batch_size=b, accumulate=a, precision="full"
            ),
            tmp_path / f"{b}",
            quiet=True,
        )
        for b, a in ((2, 3), (6, 1))
    )
    assert small.l2 == pytest.approx(large.l2, rel=1e-4)


def test_changed_settings_or_data_are_refused_and_nothing_is_touched(run, tmp_path, write_dataset):
    config, run_dir, _ = run
    before = {p: p.read_bytes() for p in run_dir.iterdir() if p.is_file()}
    with pytest.raises(InputError, match="epochs: 6 -> 5"):
        train(config.model_copy(update={"epochs": 5}), run_dir, quiet=True)
    with pytest.raises(InputError, match="batch_size: 5 -> 3"):
        train(config.model_copy(update={"epochs": 7, "batch_size": 3}), run_dir, quiet=True)
    other = write_dataset(tmp_path / "other.h5", seed=1)
    with pytest.raises(InputError, match="not the file that"):
        train(config.model_copy(update={"data": str(other)}), run_dir, quiet=True)
    assert {p: p.read_bytes() for p in run_dir.iterdir() if p.is_file()} == before


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"data": "none.h5"}, "none.h5"),
        ({"model": "Oracle"}, "unknown model 'Oracle': expected one of"),
        ({"arguments": {"modes": 3}}, "FNO cannot be built: .*modes"),
        ({"arguments": {**ARGUMENTS, "in_channels": 2}}, "FNO cannot be applied to .*expected input"),
        ({"arguments": {**ARGUMENTS, "n_modes": (4, 4, 4)}}, "FNO cannot be applied to .*expected input"),
    ],
)
def test_bad_data_and_models_are_refused_before_anything_is_written(config, tmp_path, changes, match):
    with pytest.raises(InputError, match=match) as caught:
        train(config.model_copy(update=changes), tmp_path / "run", quiet=True)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_directory_that_cannot_be_written_is_named(config, tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(InputError, match=r"cannot write to .*file"):
        train(config, tmp_path / "file" / "run", quiet=True)


def test_two_processes_do_not_train_in_one_directory(config, tmp_path):
    with claimed(tmp_path), pytest.raises(InputError, match="another process is training"):
        train(config, tmp_path, quiet=True)
    assert train(config, tmp_path, quiet=True).status == "finished"


def test_a_run_without_a_checkpoint_may_change_its_settings_and_leaves_no_litter(config, tmp_path):
    (tmp_path / "state").mkdir()
    names = (f".metrics.csv.x1y2{PARTIAL}", f"state/.at-0000000003.safetensors.x1y2{PARTIAL}")
    litter = [tmp_path / name for name in names]
    for path in litter:
        path.write_text("half written")
    (tmp_path / "config.json").write_text('{"config": {"data": "other.h5"}, "data": {}, "environment": {}}')
    train(config, tmp_path, quiet=True)
    assert json.loads((tmp_path / "config.json").read_text())["config"]["data"] == config.data
    assert not any(path.exists() for path in litter)


def test_a_coarser_test_grid_has_the_values_of_its_points_and_a_finer_one_is_refused():
    """64 points of a sine on a torus, at 32 and at 24: the sine itself. (Cell centres would be 5% off.)"""
    torus = Torus((1.0, 1.0))
    fine, half, odd = (torch.sin(2 * math.pi * torch.arange(n) / n).expand(1, 1, n, n) for n in (64, 32, 24))
    assert torch.equal(resample(fine, torus, 32), fine[..., ::2, ::2])
    torch.testing.assert_close(resample(fine, torus, 32), half, atol=1e-6, rtol=0)
    torch.testing.assert_close(resample(fine, torus, 24), odd, atol=1e-6, rtol=0)
    with pytest.raises(InputError, match="finer than the data"):
        resample(fine, torus, 65)


def test_errors_at_several_resolutions_come_with_the_result(config, tmp_path):
    result = train(config.model_copy(update={"test_resolutions": (5, 10)}), tmp_path, quiet=True)
    operator, dataset = load(tmp_path / "model.safetensors"), open_dataset(config.data)
    assert set(result.resolutions) == {"5", "10"}
    assert result.resolutions["10"]["l2"] == result.l2
    # A file without a domain has cells: a coarse one is the mean of four.
    x, y = (avg_pool2d(side, 2).double() for side in dataset.test[:])
    with torch.no_grad():
        error = (operator(x.float()) - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)
    assert result.resolutions["5"]["l2"] == pytest.approx(float(error.mean()), rel=1e-5)
    with pytest.raises(InputError, match="test resolution 64 is not on the test data: expected 1 to 10"):
        train(config.model_copy(update={"test_resolutions": (64,)}), tmp_path / "b", quiet=True)


def test_early_stopping_ends_a_run_that_gets_no_better(config, tmp_path):
    stuck = config.model_copy(update={"learning_rate": 1e-30, "weight_decay": 0.0, "epochs": 9, "patience": 2})
    result = train(stuck, tmp_path, quiet=True)
    assert (result.status, result.epochs) == ("early", 3)
    assert train(stuck, tmp_path, quiet=True) == result


def test_several_seeds_give_mean_and_deviation_and_are_not_run_twice(config, tmp_path):
    summary = train_seeds(config, tmp_path, 2, quiet=True)
    values = [json.loads((tmp_path / f"seed-{i}" / "summary.json").read_text())["l2"] for i in (0, 1)]
    assert summary["l2"]["values"] == values
    assert summary["l2"]["mean"] == pytest.approx(sum(values) / 2)
    assert summary["l2"]["std"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert (
        train_seeds(config, tmp_path, 2, quiet=True) == summary == json.loads((tmp_path / "summary.json").read_text())
    )
    with pytest.raises(InputError, match="at least 1"):
        train_seeds(config, tmp_path, 0)


def test_an_eight_epoch_schedule_shows_two_four_two_and_memory_in_order(write_dataset, tmp_path):
    config = TrainConfig(
        data=str(write_dataset(tmp_path / "128.h5", n_train=3, n_test=1, grid=(128, 128))),
        arguments={"n_modes": (16, 16), "hidden_channels": 24, "n_layers": 4},
        epochs=8,
        batch_size=4,
        evaluate_every=8,
        precision="schedule",
        dtype="bf16",
    )
    rows = train(config, tmp_path / "run", quiet=True).rows
    assert [row["policy"] for row in rows] == ["mixed"] * 2 + ["amp"] * 4 + ["full"] * 2
    mixed, amp, full = (rows[i]["peak_memory_bytes"] for i in (1, 4, 7))
    assert mixed < amp < full


def test_recomputation_saves_memory_and_changes_nothing(data_file, tmp_path):
    arguments = {"n_modes": (4, 4), "hidden_channels": 16, "n_layers": 4}
    plain, recomputed = (
        train(
            TrainConfig(data=str(data_file), arguments=arguments, epochs=1, precision="full", recompute=recompute),
            tmp_path / str(recompute),
            quiet=True,
        )
        for recompute in (False, True)
    )
    assert recomputed.activation_bytes < plain.activation_bytes
    assert recomputed.l2 == plain.l2


def test_reading_batches_from_the_file_gives_the_same_run(config, tmp_path):
    inside = train(config, tmp_path / "a", quiet=True)
    outside = train(config.model_copy(update={"in_memory": False}), tmp_path / "b", quiet=True)
    assert inside.l2 == outside.l2


def test_a_log_has_a_line_per_epoch_with_loss_rate_and_time_left(config, tmp_path, capfd):
    train(config.model_copy(update={"epochs": 3}), tmp_path)
    lines = capfd.readouterr().err.splitlines()
    epochs = [line for line in lines if line.startswith("epoch ")]
    assert len(epochs) == 3
    assert "train loss" in epochs[0]
    assert "samples/s" in epochs[0]
    assert "left" in epochs[0]
    assert "left" not in epochs[2]
    assert not any("\x1b" in line for line in lines)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"strategy": "fsdp", "compile": True}, "compile does not work with strategy fsdp"),
        ({"monitor": True, "compile": True}, "expected one of the two"),
        ({"phases": ((1.0, "full"),)}, "expected precision=schedule"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(config, tmp_path, changes, match):
    with pytest.raises(InputError, match=match):
        train(config.model_copy(update=changes), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_terminal_shows_a_bar_with_loss_rate_and_time_left():
    console = PlainConsole(file=io.StringIO(), force_terminal=True, width=120)
    with Display(total=10, console=console) as display:
        display.begin(2)
        display.batch(5, epoch=1, loss=0.25, rate=123.4)
        display.say("a [note] in brackets")
    text = console.file.getvalue()
    assert "epoch 2  loss 0.25  123.4 samples/s" in text
    assert "5/10" in text
    assert "a [note] in brackets" in text


@pytest.mark.filterwarnings("ignore:Dynamo detected a call")
def test_a_compiled_model_trains_as_an_eager_one_and_compiles_once_per_phase(config, tmp_path, monkeypatch):
    """Dynamo without a code generator: what is traced and how often, in seconds instead of a minute."""
    monkeypatch.setattr(torch.nn.Module, "compile", _trace)
    arguments = {**config.arguments, "n_layers": 1}
    changes = {"arguments": arguments, "epochs": 4, "batch_size": 5, "precision": "schedule", "dtype": "bf16"}
    eager = train(config.model_copy(update=changes), tmp_path / "eager", quiet=True)
    torch._dynamo.reset()
    counters.clear()
    compiled = train(config.model_copy(update={**changes, "compile": True}), tmp_path / "compiled", quiet=True)
    assert compiled.l2 == pytest.approx(eager.l2, rel=1e-2)
    assert counters["stats"]["unique_graphs"] == 3
    assert not counters["graph_break"]
    assert (compiled.peak_memory_bytes, eager.peak_memory_bytes > 0) == (None, True)
    models = [load(tmp_path / name / "model.safetensors").model for name in ("eager", "compiled")]
    assert models[0].config == models[1].config


def _trace(module, **_):
    module._compiled_call_impl = torch.compile(module._call_impl, backend="eager")
