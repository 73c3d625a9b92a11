"""Tensors and JSON in one safetensors file under one checksum: whole and unchanged, or refused.

Layout: 8 bytes of header length, the JSON header, the tensor data. The header's ``__metadata__`` has two strings:
``halfwave``, the JSON given by the writer, and ``sha256``, the digest of the whole file with zeros in its own place. So
a changed byte anywhere is found: in the data, in a name, in a shape, in the digest itself. Nothing is ever unpickled.

Equal content is equal bytes: the header is canonical (metadata and the writer's JSON sorted by name), so the hash of a
file identifies what is in it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import safetensors
from safetensors.torch import save_file
from torch import Tensor

from halfwave.errors import InputError
from halfwave.files import check_regular, parse_json, written_aside

_METADATA = "__metadata__"
_NO_DIGEST = "0" * 64
# Inside a JSON string a quote is always escaped, so this cannot match within the writer's own values.
_DIGEST = re.compile(rb'"sha256":"([0-9a-f]{64})"')
_LARGEST_HEADER = 100_000_000  # the limit of the format itself
_BLOCK = 1 << 22


def write_sealed(path: str | Path, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
    """Write `tensors` and the JSON-able `values`; what was at `path` stays until the new file is complete."""
    path = Path(path)
    text = _as_json(values, path)
    # Cloned when two names share memory, which the format refuses.
    storages = [t.untyped_storage().data_ptr() for t in tensors.values()]
    shared = len(set(storages)) < len(storages)
    plain = {name: (t.detach().clone() if shared else t.detach()).contiguous() for name, t in tensors.items()}
    try:
        with written_aside(path) as aside:
            save_file(plain, aside, metadata={"halfwave": text, "sha256": _NO_DIGEST})
            _seal(aside)
    except (OSError, safetensors.SafetensorError) as error:
        raise InputError(f"cannot write {path}: {error}") from error


def read_sealed(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_sealed` wrote; InputError in one line for a file that is missing, damaged or of another kind."""
    path = Path(path)
    _check_digest(path)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            values = parse_json((file.metadata() or {}).get("halfwave", "null"), f"the header of {path}")
            if not isinstance(values, dict):
                raise InputError(f"{path} is not a halfwave file: its header has no object 'halfwave'")
            return {name: file.get_tensor(name) for name in file.keys()}, values  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file: {error}") from error


def _as_json(values: Mapping[str, Any], path: Path) -> str:
    try:
        return json.dumps(values, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"cannot write {path}: what goes with the tensors must be JSON: {error}") from error


def _seal(path: Path) -> None:
    """Put the header in order, and the digest into it."""
    with open(path, "r+b") as file:
        header = _canonical(_read_header(file))
        place = _DIGEST.search(header)
        assert place is not None, "save_file wrote the metadata it was given"
        digest = _digest(file, header).encode()
        file.seek(0)
        file.write(header[: place.start(1)] + digest + header[place.end(1) :])


def _canonical(header: bytes) -> bytes:
    """The same header with its metadata sorted: safetensors writes them in the order of a hash table."""
    values = json.loads(header[8:])
    ordered = {**values, _METADATA: dict(sorted(values[_METADATA].items()))}
    text = json.dumps(ordered, separators=(",", ":"), ensure_ascii=False).encode()
    return header[:8] + text.ljust(len(header) - 8)


def _check_digest(path: Path) -> None:
    check_regular(path)
    try:
        with open(path, "rb") as file:
            header = _read_header(file)
            found = _DIGEST.search(header)
            if found is None:
                raise InputError(f"{path} is not a halfwave file: it has no checksum")
            if _digest(file, header) != found.group(1).decode():
                raise InputError(f"{path} is damaged: its checksum does not match its content")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except _NotSealedError as error:
        raise InputError(f"{path} {error}") from None


class _NotSealedError(Exception):
    """The first bytes are not those of a safetensors file."""


def _read_header(file: BinaryIO) -> bytes:
    """The length and the header, checked for kind and for completeness."""
    start = file.read(9)
    if not start:
        raise _NotSealedError("is empty")
    length = int.from_bytes(start[:8], "little")
    # The brace comes first: a length may well begin with a byte that also begins a pickle.
    if start[8:] != b"{" or not 2 <= length <= _LARGEST_HEADER:
        if start[:2] == b"PK" or start[:1] == b"\x80":
            raise _NotSealedError("is a pickle, which halfwave never opens: a safetensors file is needed")
        raise _NotSealedError("is not a safetensors file")
    header = file.read(length - 1)
    if len(header) < length - 1:
        raise _NotSealedError("is truncated or not a safetensors file")
    return start + header


def _digest(file: BinaryIO, header: bytes) -> str:
    """SHA-256 of the file, of which `header` has been read, with the digest's own place zeroed."""
    digest = hashlib.sha256(_DIGEST.sub(b'"sha256":"' + _NO_DIGEST.encode() + b'"', header))
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()
