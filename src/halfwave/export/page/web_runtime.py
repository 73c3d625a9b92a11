"""ONNX Runtime Web: its code and its WebAssembly, fetched once by npm and kept.

Not shipped with the package: 14 MB of machine code belong to a registry, not to a repository, and only whoever writes a
page needs them. The version is fixed and every file is checked by its hash, so that a page is what was tested.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from halfwave.errors import InputError
from halfwave.files import make_directory, written_aside

VERSION = "1.30.0"
FILES = {
    "ort.wasm.bundle.min.mjs": "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90",
    "ort-wasm-simd-threaded.wasm": "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
}
PATIENCE = 120.0
"""Seconds that npm gets: by its own settings it waits 5 minutes for an answer, and asks three times."""


@dataclass(frozen=True)
class WebRuntime:
    """The module to import, and the WebAssembly that it is given."""

    code: bytes
    wasm: bytes


def web_runtime() -> WebRuntime:
    """From the cache, or by npm; InputError, one line, where neither has it."""
    folder = cache_directory()
    if not all(_is_whole(folder / name) for name in FILES):
        _fetch(folder)
    code, wasm = ((folder / name).read_bytes() for name in FILES)
    return WebRuntime(code, wasm)


def cache_directory() -> Path:
    """Where the files are kept: HALFWAVE_CACHE, or the user's cache."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("HALFWAVE_CACHE") or caches / "halfwave") / f"onnxruntime-web-{VERSION}"


def _fetch(folder: Path) -> None:
    npm = shutil.which("npm")
    wanted = f"a page needs onnxruntime-web {VERSION} once, from npm or in {folder} ({', '.join(FILES)})"
    if npm is None:
        raise InputError(f"{wanted}: npm is not installed")
    with tempfile.TemporaryDirectory() as scratch:
        reason = _pack(npm, Path(scratch))
        packed = list(Path(scratch).glob("*.tgz"))
        if reason or not packed:
            raise InputError(f"{wanted}: npm says {reason or 'no package came'!r}")
        _unpack(packed[0], make_directory(folder))


def _pack(npm: str, folder: Path) -> str:
    """The package of VERSION in `folder`; the last line of what npm says if it fails, else nothing."""
    command = [npm, "pack", f"onnxruntime-web@{VERSION}", "--silent", "--pack-destination", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"nothing for {PATIENCE:.0f} s"
    said = (done.stderr or done.stdout).strip().splitlines() or ["no package came"]
    return said[-1] if done.returncode else ""


def _unpack(package: Path, folder: Path) -> None:
    with tarfile.open(package) as archive:
        for name in FILES:
            member = archive.extractfile(f"package/dist/{name}")
            content = b"" if member is None else member.read()
            if hashlib.sha256(content).hexdigest() != FILES[name]:
                raise InputError(f"onnxruntime-web {VERSION} from npm has another {name} than the one that was tested")
            with written_aside(folder / name) as aside:
                aside.write_bytes(content)


def _is_whole(path: Path) -> bool:
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == FILES[path.name]
