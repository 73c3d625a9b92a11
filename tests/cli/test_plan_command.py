"""`halfwave plan`: one table, JSON, and one line for nonsense."""

import json

import pytest

from halfwave.planner import DEVICES, NETWORKS, largest_batch, plan_memory
from halfwave.planner.workload import recipe_workload

SMALL = ("n_layers=1", "hidden_channels=8", "n_modes=[8,8]")
ASKED = ["plan", "demo", "--batch", 8, "--grid", 32, "--device-memory", "1GiB", "--arguments", *SMALL]


def test_one_row_for_each_policy(command):
    code, out, _ = command(*ASKED)
    assert code == 0
    for name in ("full", "amp", "half", "mixed"):
        assert f"│ {name} " in out
    assert "rtx-3090-ti (1 GiB)" in out
    assert max(map(len, out.splitlines())) <= 80


def test_figures_are_those_of_the_library(command):
    code, out, _ = command(*ASKED, "--json", "--device", "v100")
    assert code == 0
    record = json.loads(out)
    mixed = record["policies"][-1]
    work = recipe_workload("demo", 32, {"n_layers": 1, "hidden_channels": 8, "n_modes": [8, 8]})
    assert mixed["policy"] == "mixed"
    assert mixed["peak_bytes"] == plan_memory(work.model, work.inputs(8), policy="mixed", device="cuda").peak_bytes
    assert mixed["largest_batch"] == largest_batch(work, "1GiB", "mixed", device="cuda")
    assert mixed["verdict"] == "fits"
    assert record["policies"][0]["relative_time"] == 1.0


def test_a_batch_that_does_not_fit(command):
    _, out, _ = command(*ASKED, "--batch", 16384, "--json")
    assert {policy["verdict"] for policy in json.loads(out)["policies"]} == {"does not fit"}


def test_a_mesh_has_bytes_time_and_sources(command):
    """Two grids of twice the points need twice the memory of a device; more devices need less."""
    asked = ("plan", "--mesh", "data=2,grid=2", "--device", "h100", "--grid", "16x16x16", "--device-memory", "2GiB")
    small = ("--arguments", "n_layers=1", "hidden_channels=8", "n_modes=[4,4,4]", "--json")
    code, out, err = command(*asked, *small)
    assert code == 0, err
    record = json.loads(out)
    plan = record["plan"]
    assert plan["piece"] == [8, 16, 16]
    assert plan["sent"]["modes"] == 4 * (2 * 4 * 3 * 2 * 8) * 2  # in half precision
    assert plan["network_seconds"] > 0
    assert plan["compute_seconds"] > 0
    assert any("checked: " in sentence for sentence in plan["rates"])
    needs = [entry["peak_bytes"] for entry in record["strong"]]
    assert needs == sorted(needs, reverse=True)
    assert record["largest_side"] >= 16
    assert "communication" in record["crossover"]


def test_figures_that_nobody_checked_say_so(command):
    for name, said in (("xeon-8380", "; unverified"), ("rtx-3090", "unverified: half precision")):
        _, out, _ = command(*ASKED, "--json", "--device", name)
        assert said in json.loads(out)["clock"]


def test_every_figure_has_a_source_or_is_marked():
    """Of each device and each network: found again at a named place, or said to be found nowhere."""
    for sourced in (*DEVICES.values(), *NETWORKS.values()):
        assert sourced.source
        assert "." in sourced.checked or "; unverified" in sourced.sourced
        assert sourced.unverified in sourced.sourced
        assert sourced.checked or not sourced.unverified


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["demo", "--device-memory", "24 parsecs"], "unknown unit 'parsecs'"),
        (["nonsense"], "unknown recipe 'nonsense': expected one of darcy"),
        (["demo", "--batch", 0], "--batch must be at least 1, got 0"),
        (["demo", "--device", "h300"], "unknown device 'h300': expected one of v100"),
        (["demo", "--grid", 2], "too small"),
        (["demo", "--dtype", "fp7"], "fp7"),
        (["demo", "--grid", "32x32"], "--grid must be points a side"),
        (["--mesh", "grid=2"], "needs a grid"),
        (["--mesh", "grid=8", "--grid", "4x4"], "too few for 8 processes"),
        (["demo", "--mesh", "grid=2", "--grid", "8x8x8"], "has 2 axes"),
        (["--mesh", "nodes=2", "--grid", "8x8"], "mesh 'nodes=2' is none"),
    ],
)
def test_bad_input_is_one_line(command, options, message):
    code, out, err = command("plan", *options)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1
    assert not out


def test_formats_of_a_trained_model_by_a_budget(command, fails, dataset, tmp_path):
    tiny = ["--epochs", "1", "--batch-size", "4", "--arguments", "n_modes=[4,4]", "hidden_channels=6", "n_layers=1"]
    code, _, err = command("train", "darcy", "--data", dataset, "--out", tmp_path / "run", *tiny)
    assert code == 0, err
    asked = ["plan", tmp_path / "run", "--auto", "--max-error", 0.02, "--out", tmp_path / "plan.json"]
    code, out, err = command(*asked, "--json")
    assert code == 0, err
    plan = json.loads(out)
    assert plan == json.loads((tmp_path / "plan.json").read_text())
    assert plan["met"]
    assert plan["usual_most"] <= 0.02 == plan["budget"]
    assert plan["bytes"] < plan["full_bytes"]
    code, out, _ = command(*asked)
    assert code == 0
    assert "held-out samples" in " ".join(out.split())
    fails(2, "--max-error belongs to --auto", "plan", "demo", "--max-error", 0.1)
    fails(2, "give --data FILE", "plan", tmp_path / "run" / "model.safetensors", "--auto")
