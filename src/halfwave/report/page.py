"""One HTML file that needs nothing else: every page that this library writes, from its template.

Pictures are inside the file, tables scroll within their own frame, so that the page never does; light and dark follow
the reader's system, and pictures stand on white in both. All that is put into a template is escaped there.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from halfwave.files import written_aside


@dataclass(frozen=True)
class Picture:
    """A PNG file and what it shows in words."""

    png: bytes
    alternative: str

    @property
    def width(self) -> int:
        return int(struct.unpack(">I", self.png[16:20])[0])

    @property
    def height(self) -> int:
        return int(struct.unpack(">I", self.png[20:24])[0])

    @property
    def source(self) -> str:
        return f"data:image/png;base64,{base64.b64encode(self.png).decode('ascii')}"


def render(template: str, **values: Any) -> str:
    """The text of a file of report/templates, with `values` escaped; a name that is not among them raises."""
    return _environment().get_template(template).render(values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("halfwave.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )


def write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all."""
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")
