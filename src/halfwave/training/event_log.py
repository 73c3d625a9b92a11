"""Figures of a run for TensorBoard: an event file, written at the end of an epoch by the process that computes.

TensorBoard's own writer has a thread and a queue, for programs that write in every step; what that thread meets (a full
disk, a directory that was removed) it prints as a traceback of its own.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from halfwave.errors import InputError


class EventLog:
    """One new event file in a run directory; steps from `purge` on that earlier files have are not shown."""

    def __init__(self, run_dir: Path, purge: int | None = None) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog

        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        self.path = run_dir / name
        self._write({"file_version": "brain.Event:2"})
        if purge is not None:
            self._write({"step": purge, "session_log": SessionLog(status=SessionLog.START)})

    def add(self, figures: Mapping[str, float], step: int) -> None:
        """Numbers by name, of one step."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
        self._write({"step": step, "summary": Summary(value=values)})

    def _write(self, content: dict[str, Any]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        event = Event(wall_time=time.time(), **content)
        try:
            with open(self.path, "ab") as file:
                RecordWriter(file).write(event.SerializeToString())
        except OSError as error:
            raise InputError(f"cannot write {self.path}: {error.strerror}") from error
