"""Locks: one holder at a time, free after a kill, and one clear line where a file system has none."""

import errno
import fcntl
import os
import signal
import time

import pytest

from halfwave.errors import InputError
from halfwave.files import locked


@pytest.fixture
def holder(tmp_path):
    """The id of a process that holds tmp_path / "lock"; a fork, which needs no import."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        with locked(tmp_path / "lock", "taken"):
            os.write(write, b"held")
            time.sleep(60)
        os._exit(0)
    assert os.read(read, 4) == b"held"
    yield process
    os.close(read)
    os.close(write)


def test_another_process_is_refused_until_the_holder_is_killed(tmp_path, holder):
    path = tmp_path / "lock"
    with pytest.raises(InputError, match=r"^the place is taken$"), locked(path, "the place is taken"):
        pytest.fail("two holders")
    os.kill(holder, signal.SIGKILL)
    os.waitpid(holder, 0)
    with locked(path, "nobody holds it"):
        pass


def test_one_process_holds_it_once_and_again_after_an_error(tmp_path):
    path = tmp_path / "lock"
    with locked(path, "taken"), pytest.raises(InputError, match="taken"), locked(path, "taken"):
        pytest.fail("two holders")
    with pytest.raises(ZeroDivisionError), locked(path, "taken"):
        1 / 0  # noqa: B018
    with locked(path, "taken"):
        pass


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EROFS])
def test_a_file_system_without_locks_is_one_line(tmp_path, monkeypatch, code):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(InputError) as refusal, locked(tmp_path / "lock", "taken"):
        pytest.fail("not locked")
    assert str(refusal.value).startswith(f"cannot lock {tmp_path / 'lock'}: {os.strerror(code)}; expected")


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "lock").mkdir()
    for path in (tmp_path / "file" / "lock", tmp_path / "lock"):
        with pytest.raises(InputError, match=r"^cannot lock .*lock: .*; expected"), locked(path, "taken"):
            pytest.fail("not locked")
