"""Our own HDF5 files in the `grid` layout of `store`."""

from __future__ import annotations

import json
from typing import Any

from halfwave.data.arrays import ArrayPair, H5Array, H5Reader
from halfwave.data.generator import SPLITS
from halfwave.data.placement import declared_domain
from halfwave.data.readers.common import Found
from halfwave.errors import InputError


def read_own(reader: H5Reader) -> Found:
    metadata = read_own_metadata(reader)
    arrays = {split: [H5Array(reader, f"{split}/{which}") for which in "xy"] for split in SPLITS}
    domain = declared_domain(metadata, reader.path)
    return Found({split: ArrayPair(x, y) for split, (x, y) in arrays.items()}, metadata, domain)


def read_own_metadata(reader: H5Reader) -> dict[str, Any]:
    text = reader.handle.attrs.get("metadata", "{}")
    try:
        metadata = json.loads(text)
    except (ValueError, TypeError) as error:
        raise InputError(f"{reader.path}: the attribute 'metadata' is not JSON") from error
    if not isinstance(metadata, dict):
        raise InputError(f"{reader.path}: the attribute 'metadata' is not a JSON object")
    return metadata
