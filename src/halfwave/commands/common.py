"""What commands share: consoles, options given as KEY=VALUE, and the model of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from halfwave.data import ReadOptions
from halfwave.display import PlainConsole
from halfwave.errors import UsageError

T = TypeVar("T")


def results_console() -> PlainConsole:
    """Standard output: results that may be piped on."""
    return PlainConsole()


def log_console() -> PlainConsole:
    """Standard error: what a person reads while waiting."""
    return PlainConsole(stderr=True)


def as_usage(call: Callable[[], T]) -> T:
    """`call()`, with its ValueError as a usage error: for names and values that came from the command line."""
    try:
        return call()
    except ValueError as error:
        raise UsageError(str(error)) from error


def parse_pairs(pairs: Sequence[str], option: str) -> dict[str, Any]:
    """``["dim=3", "n_modes=[8,8]"]`` as a dictionary; values are JSON, or text where they are not."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"{option}: expected KEY=VALUE, got {pair!r}")
        try:
            values[key] = json.loads(text)
        except ValueError:
            values[key] = text
    return values


@dataclass(kw_only=True)
class ReadingOptions:
    """How a file of fields is read; the same options wherever one is."""

    x_key: str | None = None
    """Name of the inputs in a file of named arrays; by default what the file's own names tell."""
    y_key: str | None = None
    """Name of the outputs in a file of named arrays; by default what the file's own names tell."""
    channel_axis: Literal["1", "-1", "none"] | None = None
    """Where plain arrays have their channels: after the samples, last, or nowhere; by default what shapes tell."""
    domain: str | None = None
    """Domain of a file that declares none: torus, box, box-cells, sphere, ..., with sides as torus:6.2832; by
    default what the file declares, or else box-cells."""

    def read_options(self, model: object = None, **more: Any) -> ReadOptions:
        """With the number of grid axes of a model, where there is one; UsageError for values that are not accepted."""
        axis: Any = self.channel_axis if self.channel_axis in (None, "none") else int(self.channel_axis)
        axes = getattr(getattr(model, "model", model), "n_dim", None)
        return as_usage(
            lambda: ReadOptions(
                domain=self.domain,
                x_key=self.x_key,
                y_key=self.y_key,
                channel_axis=axis,
                grid_axes=axes,
                **more,
            )
        )

    @property
    def asked(self) -> dict[str, Any]:
        """What was given on the command line, as settings of a `TrainConfig`."""
        found = {
            "x_key": self.x_key,
            "y_key": self.y_key,
            "channel_axis": self.read_options().channel_axis,
            "domain": self.domain,
        }
        return {name: value for name, value in found.items() if value is not None}


def figure_text(value: float | None) -> str:
    """A number, or a dash where there is none."""
    return "-" if value is None else f"{value:.4g}"
