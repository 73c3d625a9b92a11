"""The command line: options to a command object, errors to one line and an exit code.

Exit codes: 0 done, 1 bad input or failure, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from halfwave.commands import COMMANDS
from halfwave.commands.interface import read
from halfwave.errors import InputError, UsageError

_RESUMED = ("demo", "data", "train", "reproduce")
"""Commands that keep what they have done when they are interrupted."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    sys.exit(run([a for a in given if a != "--debug"], debug))


def run(arguments: list[str], debug: bool = False) -> int:
    """Run one command and return its exit code; errors become one line on standard error."""
    try:
        if not arguments or arguments[0] in ("-h", "--help"):
            print(_overview())
            return 0
        if arguments[0] == "--version":
            print(f"halfwave {import_module('halfwave').__version__}")
            return 0
        parse(arguments).run()
        return 0
    except SystemExit as exit:  # --help of a command
        return int(exit.code or 0)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (else the interpreter flushes into the closed pipe)
        return 0
    except KeyboardInterrupt:
        resumed = arguments[0] in _RESUMED
        return _fail(f"interrupted{'; the same command goes on where it stopped' if resumed else ''}", 130)
    except Exception as error:
        if debug:
            traceback.print_exc()
        code = 2 if isinstance(error, UsageError) else 1
        known = isinstance(error, InputError | OSError)
        return _fail(str(error) if known else f"{type(error).__name__}: {error} (--debug shows where)", code)


def parse(arguments: list[str]) -> Any:
    """The command object of a command line; UsageError, in one line, for what makes none."""
    name, *options = arguments
    if name not in COMMANDS:
        raise UsageError(f"unknown command {name!r}: expected one of {', '.join(COMMANDS)}")
    command = getattr(import_module(f"halfwave.commands.{name}"), name.capitalize())
    return read(command, options, f"halfwave {name}")


def _overview() -> str:
    lines = [f"  {name:<11} {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "usage: halfwave COMMAND [OPTIONS]",
            "",
            "Neural operators in mixed precision, and how far the result can be trusted.",
            "",
            *lines,
            "",
            "halfwave COMMAND --help lists the options of a command.",
            "--debug after any command shows the traceback of an error.",
        ]
    )


def _fail(message: str, code: int) -> int:
    print("halfwave: " + " ".join(message.split()), file=sys.stderr)
    return code
