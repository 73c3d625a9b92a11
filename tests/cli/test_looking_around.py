"""`runs`, `info`, `completion`, and how `plan` words its times: what a user looks at between trainings."""

import json
import shutil
import subprocess

import pytest

from halfwave.commands import COMMANDS
from halfwave.commands.completion import completion_script
from halfwave.commands.plan import beside_full
from halfwave.planner import PolicyVerdict
from halfwave.recipes import recipes


@pytest.fixture(scope="module")
def two_runs(trained, tmp_path_factory):
    """The trained run, and a copy that claims another batch size, another policy and a smaller error."""
    place = tmp_path_factory.mktemp("several")
    shutil.copytree(trained, place / "a")
    shutil.copytree(trained, place / "deeper" / "b")
    record = json.loads((trained / "config.json").read_text())
    record["config"] |= {
        "batch_size": 2,
        "precision": "full",
        "arguments": {**record["config"]["arguments"], "rank": 1},
    }
    (place / "deeper" / "b" / "config.json").write_text(json.dumps(record))
    summary = json.loads((trained / "summary.json").read_text())
    (place / "deeper" / "b" / "summary.json").write_text(json.dumps(summary | {"l2": 1e-4}))
    (place / "config.json").write_text("{}")  # another program's
    return place


def test_runs_are_listed_and_compared(two_runs, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = command("runs", two_runs / "a", two_runs / "deeper", "--sort", "error")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    rows = [line for line in out.splitlines() if line.startswith("│")]
    assert "deeper/b" in rows[0]
    assert "0.0001" in rows[0]
    assert "FNO" in rows[1]
    assert "mixed" in rows[1]
    differing = {line.split("│")[1].strip(): line.split("│")[2].strip() for line in rows if line.count("│") == 3}
    assert differing == {"batch_size": "2 (1); 4 (2)", "arguments.rank": "1 (1); - (2)"}


def test_runs_as_json_have_the_figures_of_the_files(two_runs, command):
    (two_runs / "config.json").unlink(missing_ok=True)
    code, out, _ = command("runs", two_runs, "--json")
    assert code == 0
    first = json.loads(out)[0]
    rows = (two_runs / "a" / "metrics.csv").read_text().splitlines()
    seconds = [float(dict(zip(rows[0].split(","), row.split(","), strict=True))["seconds"]) for row in rows[1:]]
    assert first["path"] == str(two_runs / "a")
    assert first["seconds"] == pytest.approx(sum(seconds))
    assert (first["epochs"], first["epochs_asked"], first["status"]) == (2, 2, "finished")
    assert first["l2"] == json.loads((two_runs / "a" / "summary.json").read_text())["l2"]


def test_runs_that_are_not_there(fails, tmp_path):
    fails(1, "no runs in", "runs", tmp_path)
    fails(1, "does not exist", "runs", tmp_path / "nowhere")


def test_info_says_what_a_report_of_a_problem_needs(command):
    import torch

    code, out, _ = command("info", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["versions"]["torch"] == torch.__version__
    assert found["hardware"]["threads of an operation"] == torch.get_num_threads()
    assert found["number formats"]["fp32"].startswith("native")
    assert "emulated" in found["number formats"]["fp8_e4m3"]
    assert {"versions", "hardware", "number formats", "caches", "extras", "tools"} == set(found)
    code, out, _ = command("info")
    assert code == 0
    assert torch.__version__ in out
    assert max(map(len, out.splitlines())) <= 80


def completed(script, *words):
    """What bash offers for the last word."""
    call = (
        'fn=$(complete -p halfwave | sed "s/.*-F \\([^ ]*\\).*/\\1/"); COMP_WORDS=("$@"); '
        'COMP_CWORD=$(( $# - 1 )); COMPREPLY=(); $fn; echo "${COMPREPLY[*]}"'
    )
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{call}", "bash", *words], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on PATH")
def test_bash_completes_commands_options_values_and_names():
    script = completion_script("bash")
    assert completed(script, "halfwave", "") == [*COMMANDS, "--help", "--version"]
    assert completed(script, "halfwave", "tr") == ["train"]
    names = [recipe.name for recipe in recipes() if recipe.name.startswith("darcy")]
    assert completed(script, "halfwave", "train", "darcy") == names
    assert completed(script, "halfwave", "train", "darcy", "--ep") == ["--epochs"]
    assert completed(script, "halfwave", "train", "darcy", "--no-comp") == ["--no-compile"]
    assert completed(script, "halfwave", "train", "darcy", "--loss", "") == ["l2", "h1"]
    assert completed(script, "halfwave", "evaluate", "runs/a", "--precision", "do") == ["double"]
    assert completed(script, "halfwave", "evaluate", "") == [], "names of files are bash's own"


def test_other_shells_have_scripts():
    assert completion_script("zsh").startswith("autoload")
    fish = completion_script("fish")
    assert "-a train -d" in fish
    assert "__fish_seen_subcommand_from train' -l epochs" in fish


def test_plan_says_slower_or_faster_and_which_device(command, monkeypatch):
    assert [beside_full(time) for time in (1.0, 1.29, 0.5)] == ["1.00x", "1.29x slower", "2.00x faster"]
    verdicts = [
        PolicyVerdict("full", 10**8, 2 * 10**8, True, 64, 1.0, 1.0, 1e-6, 1e-2),
        PolicyVerdict("mixed", 10**8, 2 * 10**8, True, 64, 1.29, 1.29, 1e-3, 1e-2),
    ]
    monkeypatch.setattr("halfwave.commands.plan.judge", lambda *_, **__: iter(verdicts))
    code, out, _ = command("plan", "demo")
    words = " ".join(out.split())
    assert code == 0
    assert "1.29x slower" in words
    assert "device: assumed to be rtx-3090-ti, as none was named; --device NAME plans for another" in words
    _, out, _ = command("plan", "demo", "--device", "v100")
    assert "device: assumed to be v100; --device NAME" in " ".join(out.split())
    _, out, _ = command("plan", "demo", "--json")
    assert json.loads(out)["device_name"] == "rtx-3090-ti"
