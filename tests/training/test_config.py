"""TrainConfig: round trip and one-line refusals."""

import pytest

from halfwave.errors import InputError
from halfwave.files import write_json
from halfwave.precision import Policy
from halfwave.recipes import get_recipe, recipes
from halfwave.training import TrainConfig
from halfwave.training.config import read_config


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"epoch": 3}, "unknown field 'epoch': expected one of data, model"),
        ({"precision": "triple"}, "precision: unknown precision 'triple': expected one of full, amp, half, mixed"),
        ({"loss": "l7"}, "loss: Input should be 'l2' or 'h1', got 'l7'"),
        ({"epochs": 0}, "epochs: .*greater than or equal to 1, got 0"),
        ({"learning_rate": "fast"}, "learning_rate: .*, got 'fast'"),
        ({"dtype": "fp17"}, "dtype: .*fp17"),
        ({"stabilizer": "hope"}, "stabilizer: unknown stabilizer 'hope'"),
        ({"on_nonfinite": "pray"}, "on_nonfinite: Input should be 'stop', 'skip' or 'promote'"),
    ],
)
def test_a_bad_field_is_named_in_one_line(values, match):
    with pytest.raises(InputError, match=match) as caught:
        TrainConfig(data="d.h5", **values)
    assert "\n" not in str(caught.value)


def test_data_is_required():
    with pytest.raises(InputError, match="data: Field required"):
        TrainConfig()


def test_a_config_is_itself_when_read_back(tmp_path):
    config = TrainConfig(data="d.h5", arguments={"n_modes": (4, 4)}, test_resolutions=(8, 16), dtype="fp16")
    write_json(tmp_path / "config.json", {"config": config.to_dict()})
    assert read_config(tmp_path / "config.json") == config
    write_json(tmp_path / "config.json", {"config": {**config.to_dict(), "warp": 9}})
    with pytest.raises(InputError, match=r"config.json: unknown field 'warp'"):
        read_config(tmp_path / "config.json")
    write_json(tmp_path / "config.json", [1])
    with pytest.raises(InputError, match="not the config of a run"):
        read_config(tmp_path / "config.json")


def test_the_schedule_follows_precision_dtype_and_stabilizer():
    schedule = TrainConfig(data="d.h5", precision="schedule", dtype="fp16", stabilizer="tanh").build_schedule()
    assert [(fraction, policy.name) for fraction, policy in schedule.phases] == [
        (0.25, "mixed"),
        (0.5, "amp"),
        (0.25, "full"),
    ]
    assert schedule.policy_at(0) == Policy.named("mixed", "fp16", "tanh")
    constant = TrainConfig(data="d.h5", precision="half").build_schedule()
    assert [policy.name for _, policy in constant.phases] == ["half"]


def test_phases_must_make_sense():
    with pytest.raises(InputError, match="sum to 1"):
        TrainConfig(data="d.h5", precision="schedule", phases=((0.5, "full"),)).build_schedule()
    with pytest.raises(InputError, match="expected precision=schedule"):
        TrainConfig(data="d.h5", precision="full", phases=((1.0, "full"),)).build_schedule()


def test_a_dtype_that_is_not_half_is_refused_in_one_line():
    for precision in ("mixed", "schedule"):
        with pytest.raises(InputError, match="dtype fp32 is not half: precision 'mixed' takes one of"):
            TrainConfig(data="d.h5", precision=precision, dtype="fp32").build_schedule()
    assert TrainConfig(data="d.h5", precision="double").build_schedule().policy_at(0).name == "double"


def test_differences_leave_out_what_may_change():
    old = TrainConfig(data="a.h5", epochs=3)
    assert TrainConfig(data="b.h5", epochs=3, devices=2).differences(old) == []
    assert TrainConfig(data="a.h5", epochs=4).differences(old) == ["epochs: 3 -> 4"]


def test_channels_follow_the_data_unless_given():
    config = TrainConfig(data="a.h5", arguments={"in_channels": 3}, backend="fft")
    assert config.model_arguments(1, 2) == {"in_channels": 3, "out_channels": 2, "backend": "fft"}


def test_a_planned_policy_is_part_of_the_config(tmp_path):
    policy = Policy(contraction="fp16", name="planned", layers={"blocks.0": Policy(pointwise="bf16")})
    config = TrainConfig(data="d.h5", precision="planned", policy=policy)
    write_json(tmp_path / "config.json", {"config": config.to_dict()})
    assert read_config(tmp_path / "config.json") == config
    assert config.build_schedule().policy_at(0.3) == policy


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"precision": "planned"}, "precision is planned and policy is not given"),
        (
            {"precision": "mixed", "policy": Policy()},
            "precision is mixed and policy is given: expected",
        ),
        ({"precision": "planned", "policy": Policy(), "dtype": "bf16"}, "dtype is given but precision is planned"),
        ({"precision": "planned", "policy": {"speed": "fp16"}}, "unknown policy field 'speed'"),
        ({"precision": "planned", "policy": {"weights": ["fp16"]}}, "expected the object that Policy.to_dict gives"),
    ],
)
def test_contradictions_of_a_planned_policy(values, match):
    with pytest.raises(InputError, match=match):
        TrainConfig(data="d.h5", **values).build_schedule()


def test_a_recipe_gives_every_setting_and_changes_win():
    recipe = get_recipe("darcy")
    config = TrainConfig.of(recipe, "d.h5", epochs=3, arguments={"hidden_channels": 7})
    assert (config.data, config.model, config.recipe, config.epochs) == ("d.h5", recipe.model, "darcy", 3)
    assert config.arguments == {**recipe.arguments, "hidden_channels": 7}
    for name in recipe.training.keys() - {"epochs"}:
        assert getattr(config, name) == recipe.training[name]
    with pytest.raises(InputError, match="unknown field 'epoch'"):
        TrainConfig.of(recipe, "d.h5", epoch=3)


def test_every_recipe_is_a_config_and_only_live_ones_without_a_file():
    for recipe in recipes():
        assert not TrainConfig.of(recipe, "d.h5").is_live
        if recipe.live:
            config = TrainConfig.of(recipe)
            assert config.data == f"live:{recipe.generator}"
            assert (config.n_train, config.n_test) == (recipe.n_train, recipe.n_test)
            assert config.resolution == recipe.parameters["resolution"]
        else:
            with pytest.raises(InputError, match=f"{recipe.name} are not live: expected a dataset file"):
                TrainConfig.of(recipe)
