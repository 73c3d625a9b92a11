"""What a `.pt` file holds, without running or believing it: tensors in dictionaries and lists, and nothing else.

torch's own unpickler (`weights_only`) runs no code, but it builds sets and byte arrays of any size, and tensors that
repeat a few bytes without end. So the pickle's opcodes are looked through first for what they name. Files of torch 1.6
and later are zip archives with a CRC-32 of every part, of which torch checks none: here they are.
"""

from __future__ import annotations

import math
import pickletools
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from halfwave.data.archives import check_crc, require_honest
from halfwave.data.claims import check_stored
from halfwave.data.refusals import reading
from halfwave.errors import InputError

_LARGEST_PICKLE = 64 * 2**20
_OLD_PICKLES = 4  # a magic number, a version, the system, the content
_NEEDED = re.compile(
    r"collections OrderedDict|torch Size|torch\.storage (Untyped|Typed)Storage|torch(\.cuda)? \w+Storage|"
    r"torch (float|bfloat|u?int|bool)\d*|torch\.serialization _get_layout|"
    r"torch\._utils _rebuild_(tensor|tensor_v2|tensor_v3|parameter|sparse_tensor)"
)


class TorchContent:
    """A file of tensors; `load` maps it, `check` verifies the parts of a zip archive, once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.zipped = zipfile.is_zipfile(path)
        self._checked = not self.zipped

    def load(self) -> Any:
        """Dictionaries, lists and mapped tensors; InputError for anything else, which is never built."""
        with reading(self.path):
            (self._look_through_archive if self.zipped else self._look_through)()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about pickle protocols; what cannot be read raises
                # Files of before torch 1.6 cannot be mapped.
                return torch.load(self.path, weights_only=True, map_location="cpu", mmap=self.zipped)

    def check(self) -> None:
        """InputError where a part's CRC-32 is not that of its content."""
        if not self._checked:
            with reading(self.path):
                for name in _entries(self.path):
                    check_crc(self.path, name)
            self._checked = True

    def _look_through_archive(self) -> None:
        with zipfile.ZipFile(self.path) as archive:
            for info in archive.infolist():
                where = f"{self.path}: '{info.filename}'"
                require_honest(info, self.path, where)
                if info.compress_type != zipfile.ZIP_STORED:
                    raise InputError(f"{where} is compressed; torch.save stores tensors as they are")
            name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
            if archive.getinfo(name).file_size > _LARGEST_PICKLE:
                raise InputError(f"{self.path}: '{name}' is too large to be a description of tensors")
            check_crc(self.path, name)
            with archive.open(name) as pickled:
                self._require_tensors(pickled)  # type: ignore[arg-type]

    def _look_through(self) -> None:
        with open(self.path, "rb") as file:
            for _ in range(_OLD_PICKLES):
                self._require_tensors(file)

    def _require_tensors(self, pickled: BinaryIO) -> None:
        for code, argument, _ in pickletools.genops(pickled):
            needed = code.name != "GLOBAL" or _NEEDED.fullmatch(str(argument))
            if code.name in ("STACK_GLOBAL", "INST") or not needed:
                raise InputError(f"{self.path} holds pickled objects other than tensors; they are not loaded")


def require_tensor(value: Any, where: str) -> Tensor:
    """`value`, detached, if it is a dense tensor of real numbers that are all there."""
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_complex() or value.is_quantized:
        kind = f"{value.dtype} {value.layout}" if isinstance(value, Tensor) else type(value).__name__
        raise InputError(f"{where} is {kind}; a dense tensor of real numbers is expected")
    check_stored(where, math.prod(value.shape) * value.element_size(), value.untyped_storage().nbytes())
    return value.detach()


def _entries(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()
