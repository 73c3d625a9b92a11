"""Every page of --help, read as a user reads it; and what the pages promise is what a run takes."""

import importlib.util
from importlib import import_module
from pathlib import Path

import pytest

from halfwave.cli import COMMANDS
from halfwave.commands.options import GROUPS, attribute_docs, options_of
from halfwave.recipes import get_recipe
from halfwave.training import TrainConfig

_SCRIPT = Path(__file__).parents[2] / "docs" / "help_check.py"
_spec = importlib.util.spec_from_file_location("help_check", _SCRIPT)
help_check = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(help_check)


@pytest.fixture(scope="module")
def pages():
    return dict(help_check.pages())


def test_no_page_has_a_fault(pages):
    assert len(pages) == len(COMMANDS) + len(help_check.NAMED) + 1
    assert [fault for line, page in pages.items() for fault in help_check.faults(line, page)] == []


def test_the_check_sees_faults():
    page = "usage: x\n\n options\n -----\n  --a INT  (default: None)\n  --b INT  Text.\n  --c      " + 80 * "x"
    found = " ".join(help_check.faults("x", page))
    for fault in ("91 columns", "--a INT has no text", "--a INT says None", "--b INT has no text or no default"):
        assert fault in found
    named = " options\n -----\n  --batch INT  Samples. (default: the recipe's)"
    assert "does not say its value" in " ".join(help_check.faults("plan darcy", named))


def test_a_recipe_shows_its_own_numbers(pages):
    listed = help_check.entries(pages["train darcy"])
    recipe = get_recipe("darcy")
    config = TrainConfig.of(recipe, "data/darcy-64.h5")
    for flag, value in {
        "--epochs INT": config.epochs,
        "--batch-size INT": config.batch_size,
        "--learning-rate FLOAT": config.learning_rate,
        "--loss {l2,h1}": config.loss,
        "--n-train INT": recipe.n_train,
        "--resolution INT": 64,
        "--data PATH": "data/darcy-64.h5",
        "--out PATH": "runs/darcy-mixed",
        "--arguments KEY=VALUE ...": "n_modes=[32,32] hidden_channels=32 n_layers=4",
        "--normalise, --no-normalise": "on",
    }.items():
        # A long value is broken at commas and spaces.
        assert listed[flag].replace(" ", "").endswith(f"(default:{value})".replace(" ", "")), listed[flag]
    assert help_check.entries(pages["train car"])["--latent-resolution INT"].endswith("(default: 8)") == (
        get_recipe("car").training.get("latent_resolution") == 8
    )


def test_help_follows_what_else_is_given(command):
    _, out, _ = command("train", "darcy", "--precision", "full", "--resolution", 32, "--arguments", "n_layers=2", "-h")
    listed = help_check.entries(out)
    assert listed["--out PATH"].endswith("(default: runs/darcy-full)")
    assert listed["--data PATH"].endswith("(default: data/darcy-32.h5)")
    assert "n_layers=2" in listed["--arguments KEY=VALUE ..."]


def test_help_of_a_family_on_own_data_has_the_numbers_of_the_data(command, dataset):
    _, out, _ = command("train", "fno", "--data", dataset, "--help")
    listed = help_check.entries(out)
    assert listed["--n-train INT"].endswith("(default: 8)")
    assert listed["--resolution INT"].endswith("(default: 16)")
    assert listed["--batch-size INT"].endswith("(default: 1)")


def test_headings_and_places(pages):
    headings = [line.strip() for line in pages["train darcy"].splitlines() if line.strip() in GROUPS]
    assert headings == ["data", "model", "time", "precision", "training", "devices", "records"]
    for line, usage in {
        "evaluate": "[OPTIONS] RUN",
        "predict": "[OPTIONS] RUN IN OUT",
        "data": "[OPTIONS] NAME",
        "train": "[OPTIONS] RECIPE",
        "plan": "[OPTIONS] [RECIPE]",
    }.items():
        assert pages[line].splitlines()[0] == f"usage: halfwave {line} [-h] {usage}"


def test_a_group_names_options_that_there_are_and_none_has_two():
    named = [name for names in GROUPS.values() for name in names]
    commands = [getattr(import_module(f"halfwave.commands.{name}"), name.capitalize()) for name in COMMANDS]
    known = {option.name for command in commands for option in options_of(command)}
    assert set(named) <= known
    assert len(set(named)) == len(named)
    assert attribute_docs(TrainConfig)["epochs"] == TrainConfig.model_fields["epochs"].description


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (["--compile"], True),
        (["--no-compile"], False),
        (["--compile", "True"], True),
        (["--compile", "False"], False),
        (["--compile", "auto"], "auto"),
        (["--compile", "--epochs", "3"], True),
        ([], None),
    ],
)
def test_switches_are_read_in_every_form(given, value):
    from halfwave.cli import parse

    assert parse(["train", "darcy", *given]).compile == value


def test_typos_are_named_before_their_consequences(fails, tmp_path):
    fails(2, "Unrecognized options: --epoch (did you mean '--epochs'?)", "train", "darcy", "--epoch", "3")
    fails(2, "--epochs must be INT, got 'many'", "train", "darcy", "--epochs", "many")
    fails(2, "(did you mean 'darcy'?)", "train", "darci")
    fails(2, "(did you mean 'burgers'?)", "data", "burger")
    # Named before the data are made and before what follows from the name that is missing.
    typo = "FNO has no argument 'hiden_channels' (did you mean 'hidden_channels'?)"
    fails(1, typo, "train", "darcy", "--out", tmp_path / "run", "--arguments", "hiden_channels=3")
    fails(2, typo, "plan", "darcy", "--arguments", "hiden_channels=3")


def test_typos_in_a_program():
    import halfwave as hw

    for error in (ValueError, TypeError):
        with pytest.raises(error, match=r"FNO has no argument 'hiden_channels' \(did you mean 'hidden_channels'\?\)"):
            hw.FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hiden_channels=4)
    with pytest.raises(ValueError, match=r"TFNO has no argument 'rnk' \(did you mean 'rank'\?\)"):
        hw.TFNO((4, 4), 1, 1, 4, rnk=0.5)
    assert hw.TFNO((4, 4), 1, 1, 4, n_layers=1, norm="group_norm").config["norm"] == "group_norm"
