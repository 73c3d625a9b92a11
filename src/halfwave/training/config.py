"""TrainConfig: everything that decides a run, validated, one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, ValidationInfo, field_validator
from torch import nn

from halfwave.data import ChannelAxis, GivenData, ReadOptions, Window, is_given
from halfwave.domains import read_name
from halfwave.errors import InputError, described, nearest
from halfwave.files import read_json
from halfwave.models import MODELS, Gradients, NeuralOperator, foreign_name
from halfwave.numerics import get_format
from halfwave.parallel import MeshShape
from halfwave.precision import BLOCKS, PRECISIONS, Policy, Schedule, check_stabilizer
from halfwave.recipes import Recipe

SCHEDULE = "schedule"
LIVE = "live:"
GIVEN = "given: "
PLANNED = "planned"
AUTO: Literal["auto"] = "auto"
PAPER = ((0.25, "mixed"), (0.5, "amp"), (0.25, "full"))
# What may differ when a run is resumed: where things are and what runs them, not what is computed.
FREE_ON_RESUME = (
    "data", "test_data", "accelerator", "devices", "strategy", "mesh", "compile",
    "checkpoint_every", "checkpoint_steps", "keep",
)  # fmt: skip


class TrainConfig(BaseModel):
    """The settings of one training run. Unknown fields and values raise `InputError` in one line."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )

    data: str
    """Dataset file or directory, of any format that `halfwave.data.open_any` reads; or live:NAME, samples that the
    generator NAME makes while training, new ones in each epoch. In a program also arrays, tensors or a `Dataset` of
    pairs (`halfwave.data.GivenData`)."""
    model: str = "FNO"
    """Class of the model: FNO, TFNO, SFNO, GINO, UNet; in a program also a built module of any class."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the model; in_channels and out_channels follow the data where they are not given."""
    recipe: str | None = None
    """Name of the recipe that these settings came from, for the record."""

    init_from: str | None = None
    """Run directory or model file to begin from, weights and normalizers: fine-tuning, also at another resolution or
    precision."""

    test_data: str | None = None
    """A separate file with the test samples."""
    n_train: int | None = Field(None, ge=1)
    """Use no more than so many train samples of the file; of live data, samples an epoch. By default
    all of the file, or 120 live ones."""
    n_test: int | None = Field(None, ge=1)
    """Use no more than so many test samples of the file; of live data, test samples. By default all
    of the file, or 20 live ones."""
    subsample: int = Field(1, ge=1)
    """Keep every n-th point of each axis, or of a point cloud."""
    resolution: int | None = Field(None, ge=2)
    """Resample the fields to so many points a side (of a sphere: latitudes); of data that are made, solve on so many;
    by default the file's."""
    steps: tuple[int, int] = (0, -1)
    """Input and output step of a file that depends on time, counted from either end."""
    domain: str | None = None
    """Where the fields of a file live that does not say so: torus, box (points on its boundary too), box-cells, sphere,
    sphere-gauss, cloud; with sides torus:6.2832 or box:1x2. By default what the file declares, or else box-cells."""
    horizon: int | None = Field(None, ge=1)
    """Of trajectories: steps that a sample is unrolled over in training; every window of so many becomes a sample."""
    horizons: tuple[tuple[float, int], ...] | None = None
    """Of trajectories: a horizon that changes on the way, as pairs (fraction, steps), such as 0.5 1 0.5 8."""
    history: int = Field(1, ge=1)
    """Of trajectories: states that the model sees."""
    time_stride: int = Field(1, ge=1)
    """Of trajectories: one step of the model is so many of the file."""
    unroll: Gradients = "all"
    """Of trajectories: gradients through all steps, through the last of each (every step has a loss), or pushforward
    (the last step has a loss, those before it make its input)."""
    residual: bool = False
    """Of trajectories: the model gives the change in a step, in units of its standard deviation, and not the state."""
    noise: float = Field(0.0, ge=0)
    """Of trajectories: normal noise on the states that training sees, in standard deviations of the state."""
    recompute_steps: bool = False
    """Of trajectories: each step runs again in the backward pass, so that memory hardly grows with the horizon."""
    x_key: str | None = None
    """Name of the inputs in a file of named arrays; by default what the file's own names tell."""
    y_key: str | None = None
    """Name of the outputs in a file of named arrays; by default what the file's own names tell."""
    channel_axis: ChannelAxis | None = None
    """Where plain arrays have their channels: 1 (after the samples), -1 (last), none; by default what shapes tell."""

    epochs: int = Field(30, ge=1)
    """Passes over the train split."""
    batch_size: int = Field(8, ge=1)
    """Samples of one batch, over all devices."""
    learning_rate: float = Field(2e-3, gt=0)
    """Of the first update, or with one-cycle the largest."""
    weight_decay: float = Field(1e-4, ge=0)
    """Of AdamW: an update also shrinks every weight by this, times the learning rate."""
    optimizer: Literal["adamw", "adamw_pair", "adamw_pair_bf16", "adamw_pair_8bit"] = "adamw"
    """torch's AdamW; adamw_pair, with one second moment for each complex number, as neuraloperator's has; the same with
    its state in bf16, or in blocks of 8-bit codes. The learning rate means steps of one length in all of them: complex
    numbers move sqrt(2) times as far as in neuraloperator."""
    scheduler: Literal["cosine", "one-cycle", "constant"] = "cosine"
    """Of the learning rate: a cosine down to zero; the same after a rise over the first 30% of updates; or none."""
    augment: tuple[str, ...] = ()
    """Symmetries of the problem by which each training sample is moved at random: translations (along periodic axes),
    reflections (and swapped axes). All channels must be scalars, and the equation must have them."""
    loss: Literal["l2", "h1"] = "l2"
    """Relative L2 or H1; on point clouds L2 alone."""
    normalise: bool = True
    """Fit per-channel normalizers on the train split and keep them with the model."""
    latent_resolution: int | None = Field(None, ge=2)
    """Of point clouds: nodes a side of the latent grid; by default 16."""
    features: tuple[str, ...] = ()
    """Of point clouds: parameters of a body that are inputs beside its shape, such as velocity."""
    speed: str | None = None
    """Of point clouds: the parameter V whose square the pressure is proportional to; the model then learns p/V^2."""
    own_box: bool = False
    """Of point clouds: each body fills the latent grid, and the corners of its box are inputs; otherwise all bodies
    share the box of the train split."""
    area_weighted: bool = False
    """Of point clouds: a point counts by its area in the training loss."""
    graph_cache: int | None = Field(None, ge=0)
    """Of point clouds: MiB of neighbourhoods that are kept rather than searched again; by default 256."""
    seed: int = Field(0, ge=0, lt=2**64)
    """Of the first weights, the order of samples and all else that is drawn; the same seed gives the same run."""

    precision: str = "mixed"
    """full, amp, half, mixed, stream (mixed with a residual stream of more digits), double; schedule (the paper's 25%
    mixed, 50% amp, 25% full); planned (see policy); HHF, ..."""
    policy: dict[str, Any] | None = None
    """With precision=planned: the policy, a format for each role and layer, as `Policy.to_dict` gives it."""
    phases: tuple[tuple[float, str], ...] | None = None
    """With precision=schedule: phases, as pairs (fraction, policy) or (fraction, policy:stabilizer); by default the
    paper's 0.25 mixed 0.5 amp 0.25 full."""
    dtype: str | None = None
    """What half means: fp16, bf16, ...; by default what the device does fast."""
    stabilizer: str = "auto"
    """auto (tanh before a half FFT in any phase, none elsewhere), none, tanh, hard-clip, 2-sigma-clip, divide-S,
    normalise."""
    backend: str | None = None
    """Transforms of the spectral layers: auto, gemm, fft; by default what the model's arguments say."""

    loss_scaling: bool = False
    """Dynamic loss scaling (torch's GradScaler)."""
    clip: float | None = Field(None, gt=0)
    """Largest norm of the gradient; the paper's is 5.0."""
    accumulate: int = Field(1, ge=1)
    """Batches whose gradients are averaged into one update (delayed updates)."""
    on_nonfinite: Literal["stop", "skip", "promote"] = "stop"
    """At a non-finite loss: stop and say where, skip the step, or move to the next safer policy."""
    monitor: bool = False
    """Record the range of every layer and stage, and the first inf or NaN."""

    accelerator: str = "auto"
    """What computes: cpu, cuda, mps; auto takes a GPU where there is one."""
    devices: int = Field(1, ge=1)
    """Processes, each with a device of its own and a part of every batch."""
    strategy: Literal["auto", "ddp", "fsdp"] = "auto"
    """How several devices share the model: ddp copies it, fsdp also shards weights and optimizer; auto is ddp."""
    mesh: str | None = None
    """Processes that share fields: data=2,grid=2 for two groups with other samples, of two processes each, which have
    half of every field along its first axis; grid=2x2 for two axes. In place of devices and strategy."""
    compile: bool | Literal["auto"] = False
    """Compile the model; auto does where the run is long enough to repay it several times, but for weights of low rank,
    and `halfwave train` does auto by default."""
    recompute: bool = False
    """Recompute the activations of each block in backward: less memory, more time."""
    in_memory: bool = True
    """Hold the dataset in memory, rather than read each batch from the file."""

    checkpoint_every: int = Field(1, ge=1)
    """Epochs between checkpoints; more where writing one takes seconds and would cost over 2% of the time."""
    checkpoint_steps: int | None = Field(None, ge=1)
    """Also one every so many steps, within epochs."""
    keep: int = Field(2, ge=1)
    """Checkpoints kept; more than one lets a damaged newest fall back."""
    evaluate_every: int = Field(1, ge=1)
    """Epochs between evaluations on the test split (the last epoch always)."""
    patience: int | None = Field(None, ge=1)
    """Stop early after so many evaluations without a better test error."""
    test_resolutions: tuple[int, ...] = ()
    """Grid sizes for evaluation after training, by resampling the test split."""

    _given: GivenData | None = PrivateAttr(None)
    _module: nn.Module | None = PrivateAttr(None)

    def __init__(self, **values: Any) -> None:
        given, module = _take_data(values), _take_module(values)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InputError(_one_line(error)) from None
        self._given, self._module = given, module

    @property
    def source(self) -> str | GivenData:
        """Where the data are: a path, or what the program holds; InputError where a record names data of a program."""
        if self._given is None and self.data.startswith(GIVEN):
            raise InputError(f"the data of this run were {self.data.removeprefix(GIVEN)}: give --data FILE")
        return self._given if self._given is not None else self.data

    @property
    def module(self) -> nn.Module | None:
        """The built model, where the program has given one."""
        return self._module

    @classmethod
    def of(cls, recipe: Recipe, data: Any = None, **changes: Any) -> TrainConfig:
        """The settings of a recipe on the dataset `data`, or on its own live data, with some fields changed.

        `arguments` among the changes are those of the model that differ from the recipe's. InputError without `data`
        where the recipe's data are in a file.
        """
        settings = {**_data_of(recipe, data), **recipe.training, **changes}
        arguments = {**recipe.arguments, **settings.pop("arguments", {})}
        return cls(model=recipe.model, arguments=arguments, recipe=recipe.name, **settings)

    @field_validator("*")
    @classmethod
    def _of_a_machine(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, int) and value >= 2**63 and info.field_name != "seed":
            raise ValueError(f"a number below 2^63 is expected, got {value}")
        return value

    @field_validator("arguments")
    @classmethod
    def _as_json(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        # Tuples become lists now rather than in the file, so that a config equals itself read back.
        try:
            return json.loads(json.dumps(arguments))
        except (TypeError, RecursionError) as error:
            raise ValueError(f"expected values that are JSON: {error}") from None

    @field_validator("precision")
    @classmethod
    def _known_precision(cls, precision: str) -> str:
        named = (*PRECISIONS, SCHEDULE, PLANNED)
        if precision not in (*named, *BLOCKS):
            raise ValueError(
                f"unknown precision {precision!r}: expected one of {', '.join(named)}{nearest(precision, named)}"
            )
        return precision

    @field_validator("policy", mode="before")
    @classmethod
    def _known_policy(cls, policy: Policy | dict[str, Any] | None) -> dict[str, Any] | None:
        if policy is None or isinstance(policy, Policy):
            return None if policy is None else policy.to_dict()
        try:
            return Policy.from_dict(policy).to_dict()
        except TypeError:
            raise ValueError(f"expected the object that Policy.to_dict gives, got {policy!r}") from None

    @field_validator("dtype")
    @classmethod
    def _known_format(cls, dtype: str | None) -> str | None:
        return None if dtype is None else get_format(dtype).name

    @field_validator("horizons")
    @classmethod
    def _whole_horizons(cls, horizons: tuple[tuple[float, int], ...] | None) -> tuple[tuple[float, int], ...] | None:
        if horizons is not None and not all(fraction > 0 and steps > 0 for fraction, steps in horizons):
            raise ValueError(f"expected pairs of a positive fraction and at least 1 step, got {list(horizons)}")
        return horizons or None

    @field_validator("domain")
    @classmethod
    def _known_domain(cls, domain: str | None) -> str | None:
        if domain is not None:
            read_name(domain)
        return domain

    @field_validator("stabilizer")
    @classmethod
    def _known_stabilizer(cls, stabilizer: str) -> str:
        return check_stabilizer(stabilizer)

    @field_validator("mesh")
    @classmethod
    def _known_mesh(cls, mesh: str | None) -> str | None:
        return None if mesh is None else str(MeshShape.parse(mesh))

    @property
    def mesh_shape(self) -> MeshShape | None:
        """The mesh, where it has more than one process."""
        shape = MeshShape() if self.mesh is None else MeshShape.parse(self.mesh)
        return shape if shape.processes > 1 else None

    @property
    def processes(self) -> int:
        shape = self.mesh_shape
        return self.devices if shape is None else shape.processes

    @property
    def launched_as(self) -> Literal["auto", "ddp", "fsdp"]:
        """The strategy that starts the processes."""
        return self.strategy if self.mesh_shape is None else "ddp"

    def build_schedule(self, device: str = "cpu") -> Schedule:
        """The policies of this run on a kind of device; a constant one unless precision is ``schedule``."""
        if self.precision == PLANNED or self.policy is not None:
            return Schedule.constant(self._planned())
        if self.precision != SCHEDULE and self.phases is not None:
            raise InputError(f"phases are given but precision is {self.precision}: expected precision=schedule")
        phases = ((1.0, self.precision),) if self.precision != SCHEDULE else self.phases or PAPER
        try:
            return Schedule([(fraction, self._policy(name, device)) for fraction, name in phases])
        except ValueError as error:
            raise InputError(str(error)) from None

    @property
    def is_live(self) -> bool:
        return self.data.startswith(LIVE)

    def _planned(self) -> Policy:
        if self.precision != PLANNED or self.policy is None:
            given = "is given" if self.policy is not None else "is not given"
            raise InputError(
                f"precision is {self.precision} and policy {given}: expected precision=planned with a policy"
            )
        for name in ("phases", "dtype", "stabilizer"):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise InputError(f"{name} is given but precision is planned: the policy says it all")
        return Policy.from_dict(self.policy)

    def read_options(self) -> ReadOptions:
        """How the data file is read."""
        test = None if self.test_data is None else Path(self.test_data)
        return ReadOptions(
            test, self.n_train, self.n_test, self.subsample, self.resolution, self.steps, self.domain,
            self.x_key, self.y_key, self.channel_axis, window=self.window,
        )  # fmt: skip

    @property
    def window(self) -> Window | None:
        """What a sample of trajectories is; None where two steps are a pair. InputError for settings without one."""
        if self.horizon is None and self.horizons is None:
            for name in ("history", "time_stride", "unroll", "residual", "noise", "recompute_steps"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise InputError(f"{name} is for trajectories that are stepped through: expected a horizon with it")
            return None
        longest = self.horizon if self.horizons is None else max(steps for _, steps in self.horizons)
        if self.horizons is not None and self.horizon not in (None, longest):
            raise InputError(f"horizon is {self.horizon} and horizons go up to {longest}: expected one of the two")
        assert longest is not None, "one of the two is given"
        return Window(self.history, longest, self.time_stride)

    def horizon_at(self, progress: float) -> int:
        """Steps that training looks at when this part of its updates is done."""
        if self.horizons is None:
            return self.horizon or 1
        ends = list(accumulate(fraction for fraction, _ in self.horizons))
        place = next((i for i, end in enumerate(ends) if progress < end / ends[-1]), len(ends) - 1)
        return self.horizons[place][1]

    def _policy(self, name: str, device: str) -> Policy:
        policy, _, own = name.partition(":")
        return Policy.named(policy, self.dtype, own or self.stabilizer, device)

    def model_arguments(self, in_channels: int, out_channels: int) -> dict[str, Any]:
        """The model's arguments, with the channels of the data and the backend filled in."""
        backend = {} if self.backend is None else {"backend": self.backend}
        return {"in_channels": in_channels, "out_channels": out_channels, **self.arguments, **backend}

    def to_dict(self) -> dict[str, Any]:
        return json.loads(self.model_dump_json())

    def differences(self, other: TrainConfig) -> list[str]:
        """Fields in which two configs differ and which a resumed run must not change, as "name: old -> new"."""
        old, new = other.to_dict(), self.to_dict()
        return [f"{k}: {old[k]} -> {new[k]}" for k in new if old[k] != new[k] and k not in FREE_ON_RESUME]


def read_config(path: str | Path) -> TrainConfig:
    """The config of a run directory's ``config.json``."""
    values = read_json(path)
    if not isinstance(values, Mapping) or not isinstance(values.get("config"), Mapping):
        raise InputError(f"{path} is not the config of a run: it has no object 'config'")
    try:
        return TrainConfig(**values["config"])
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _take_data(values: dict[str, Any]) -> GivenData | None:
    """What the program holds, taken out of `values`, where its description stays."""
    data = values.get("data")
    if isinstance(data, Path):
        values["data"] = str(data)
    if not is_given(data) and not isinstance(data, GivenData):
        return None
    given = data if isinstance(data, GivenData) else GivenData(data)
    values["data"] = f"{GIVEN}{given}"
    return given


def _take_module(values: dict[str, Any]) -> nn.Module | None:
    """A built model, taken out of `values`, where its class and its arguments stay."""
    module = values.get("model")
    if not isinstance(module, nn.Module):
        return None
    if values.get("arguments"):
        raise InputError("arguments are those of a model that is built here: a built one has them already")
    known = isinstance(module, NeuralOperator) and type(module).__name__ in MODELS
    values["model"] = type(module).__name__ if known else foreign_name(module)
    values["arguments"] = module.config if known else {}
    return module


def _data_of(recipe: Recipe, data: Any) -> dict[str, Any]:
    if data is not None:
        return {"data": data}
    if not recipe.live:
        raise InputError(f"no data are given and those of {recipe.name} are not live: expected a dataset file")
    counts = {"n_train": recipe.n_train, "n_test": recipe.n_test}
    return {"data": f"{LIVE}{recipe.generator}", **counts, **recipe.parameters}


def _one_line(error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        accepted = TrainConfig.model_fields
        return f"unknown field {name!r}: expected one of {', '.join(accepted)}{nearest(name, accepted)}"
    message = first["msg"].removeprefix("Value error, ")
    given = "" if first["type"] in ("missing", "value_error") else f", got {described(first['input'])}"
    return f"{name}: {message}{given}"
