"""The command line: options to a command object, errors to one line and an exit code.

Exit codes: 0 done, 1 bad input or failure, 2 wrong usage, 130 interrupted. This module imports next to nothing at its
start: an interrupt is answered from the first moment, also while torch is being imported.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

from halfwave.commands import COMMANDS  # a list of names, which imports nothing

# The rest of what is needed is imported where it is, after `main` has seen to interrupts.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType
    from typing import Any, NoReturn

_INTERRUPTED = "interrupted; the same command goes on where it stopped"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit."""
    _leave_on_interrupt()
    atexit.register(_ignore_interrupts)
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    _take_any_text()
    code = run([a for a in given if a != "--debug"], debug)
    _leave_on_interrupt()
    sys.exit(code)


def _leave_on_interrupt() -> None:
    """From here on an interrupt ends the process at once, with its line: nothing has been begun, or all is done.

    An exception would come out of the middle of some import, which may turn it into another or swallow it. Where
    interrupts are ignored, as of a job in the background, they stay so.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def _ignore_interrupts() -> None:
    """At the very end, where the interpreter takes handlers away and a signal would kill what ends by its own code."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, f"halfwave: {_INTERRUPTED}\n".encode())
    os._exit(130)


def _raise_on_interrupt() -> None:
    """From here on an interrupt is a KeyboardInterrupt: what is being written is tidied away."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _take_any_text() -> None:
    """A terminal that cannot show a character shows its number; it does not end the work that the line tells of."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def run(arguments: list[str], debug: bool = False) -> int:
    """Run one command and return its exit code; errors become one line on standard error."""
    try:
        if not arguments or arguments[0] in ("-h", "--help"):
            print(_overview())
            return 0
        if arguments[0] == "--version":
            import halfwave

            print(f"halfwave {halfwave.__version__}")
            return 0
        command = parse(arguments)
        _raise_on_interrupt()
        command.run()
        return 0
    except SystemExit as exit:  # --help of a command
        return int(exit.code or 0)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (else the interpreter flushes into the closed pipe)
        return 0
    except KeyboardInterrupt:
        return _fail(_INTERRUPTED, 130)
    except Exception as error:
        if debug:
            _print_traceback()
        return _explain(error)


def _explain(error: Exception) -> int:
    from halfwave.errors import InputError, UsageError

    if isinstance(error, MemoryError) or "can't allocate memory" in str(error) or "out of memory" in str(error):
        return _fail(f"out of memory; what was finished is kept, a smaller --batch-size takes less ({error})", 1)
    code = 2 if isinstance(error, UsageError) else 1
    known = isinstance(error, InputError | OSError)
    return _fail(str(error) if known else f"{type(error).__name__}: {error} (--debug shows where)", code)


def _print_traceback() -> None:
    import traceback

    from halfwave.errors import printable

    print(printable(traceback.format_exc()), end="", file=sys.stderr)


def parse(arguments: list[str]) -> Any:
    """The command object of a command line; UsageError, in one line, for what makes none."""
    from importlib import import_module

    from halfwave.commands.interface import read
    from halfwave.errors import UsageError

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
    from halfwave.errors import printable

    print("halfwave: " + " ".join(printable(message).split()), file=sys.stderr)
    return code
