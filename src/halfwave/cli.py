"""The command line: options to a command object, errors to one line and an exit code.

Exit codes: 0 done, 1 bad input or failure, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import io
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr
from typing import Annotated, Any, NoReturn

import tyro
from tyro.conf import subcommand

from halfwave.commands.data import Data
from halfwave.commands.demo import Demo
from halfwave.commands.evaluate import Evaluate
from halfwave.commands.predict import Predict
from halfwave.commands.train import Train
from halfwave.errors import InputError, UsageError

COMMANDS: dict[str, Any] = {
    "demo": Demo,
    "data": Data,
    "train": Train,
    "evaluate": Evaluate,
    "predict": Predict,
}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    sys.exit(run([a for a in given if a != "--debug"], debug))


def run(arguments: list[str], debug: bool = False) -> int:
    """Run one command and return its exit code; errors become one line on standard error."""
    try:
        parse(arguments).run()
        return 0
    except SystemExit as exit:  # --help
        return int(exit.code or 0)
    except KeyboardInterrupt:
        return _fail("interrupted; the same command goes on where it stopped", 130)
    except Exception as error:
        if debug:
            traceback.print_exc()
        code = 2 if isinstance(error, UsageError) else 1
        known = isinstance(error, InputError | OSError)
        return _fail(str(error) if known else f"{type(error).__name__}: {error} (--debug shows where)", code)


def parse(arguments: list[str]) -> Any:
    """The command object of a command line; UsageError with tyro's explanation in one line."""
    kinds: Any = None
    for name, command in COMMANDS.items():
        kind = Annotated[command, subcommand(name)]  # type: ignore[valid-type]
        kinds = kind if kinds is None else kinds | kind
    captured = io.StringIO()
    try:
        with redirect_stderr(captured):
            return tyro.cli(
                kinds,
                args=arguments or ["--help"],
                prog="halfwave",
                description="Neural operators in mixed precision, and how far the result can be trusted. "
                "--debug after any command shows the traceback of an error.",
                config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagConversionOff),
            )
    except SystemExit as exit:
        if exit.code == 2:
            raise UsageError(_one_line(captured.getvalue())) from None
        raise


def _one_line(box: str) -> str:
    """tyro's box without its frame: its first sentences, up to the pointer to --help."""
    text = re.sub(r"[╭╮╰╯│]", " ", re.sub(r"╭─.*─╮", "", box))
    parts = [" ".join(part.split()) for part in re.split(r"─{3,}", text)]
    kept = [part for part in parts if part and not part.startswith("For full helptext")]
    return "; ".join(kept) + " (halfwave COMMAND --help lists the options)"


def _fail(message: str, code: int) -> int:
    print("halfwave: " + " ".join(message.split()), file=sys.stderr)
    return code
