"""Out of Python: a trained operator as an ONNX file, as a compiled program, as a page that runs in a browser.

>>> import halfwave as hw
>>> print(hw.export(model, "model.onnx", grid=(64, 64)))

The package is called as the function is: `hw.export(...)` and `from halfwave.export import export` are the same.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from halfwave.export.check import Difference
from halfwave.export.page.web_runtime import cache_directory
from halfwave.export.program import WEIGHTS, Program, Weights, build_program
from halfwave.export.shapes import Shapes
from halfwave.export.writing import TARGETS, Exported, export


class _Door(ModuleType):
    """Importing a package sets its name in the one above, over a function of that name: so the package is called."""

    def __call__(self, *args: Any, **options: Any) -> Exported:
        return export(*args, **options)


sys.modules[__name__].__class__ = _Door

__all__ = [
    "TARGETS",
    "WEIGHTS",
    "Difference",
    "Exported",
    "Program",
    "Shapes",
    "Weights",
    "build_program",
    "cache_directory",
    "export",
]
