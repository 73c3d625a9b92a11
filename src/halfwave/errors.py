"""The one exception that means: what you gave cannot be used, and here is why."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input, said in one line: what was given and what is accepted.

    The command line prints the message without a traceback and exits with code 1.
    """


class UsageError(InputError):
    """A command called with something it does not know: an option, a name, a value. Exit code 2."""
