"""`halfwave completion SHELL`: the script by which a shell completes commands, options, values and names.

The script is static: it holds what the commands take at the time it is printed, and starts no Python at the tab key.
(tyro can print one too, which knows neither the names of recipes and datasets nor which values may follow.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from tyro.conf import Positional

from halfwave.commands import COMMANDS
from halfwave.commands.options import Option, options_of
from halfwave.data import GENERATORS
from halfwave.errors import printable
from halfwave.experiments import experiment_names
from halfwave.precision import PRECISIONS
from halfwave.recipes import GENERAL, recipes


@dataclass
class Completion:
    """Prints a script for your shell; nothing is installed.

    bash: put  eval "$(halfwave completion bash)"  into ~/.bashrc

    zsh: put  eval "$(halfwave completion zsh)"  into ~/.zshrc

    fish: halfwave completion fish > ~/.config/fish/completions/halfwave.fish
    """

    shell: Positional[Literal["bash", "zsh", "fish"]]
    """Which shell."""

    def run(self) -> None:
        print(printable(completion_script(self.shell)))


@dataclass(frozen=True)
class _Words:
    """What may follow a command: its options, and names for its first place."""

    command: str
    options: tuple[Option, ...]
    names: tuple[str, ...]

    @property
    def flags(self) -> list[str]:
        own = [option for option in self.options if not option.positional]
        turned = [o for o in own if o.is_open_switch or (o.is_switch and o.default is not False)]
        switched = [f"--no-{option.flag[2:]}" for option in turned]
        return ["--help", *(option.flag for option in own), *switched]

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """By flag, where they are known."""
        known = {option.flag: _values(option) for option in self.options if not option.positional}
        return {flag: values for flag, values in known.items() if values}


def completion_script(shell: str) -> str:
    """The script for a shell, of all commands as they are now."""
    words = [_words(name) for name in COMMANDS]
    if shell == "fish":
        return "\n".join(_fish(words))
    loaded = ["autoload -Uz compinit bashcompinit && compinit && bashcompinit"] if shell == "zsh" else []
    return "\n".join([*loaded, *_bash(words)])


def _words(name: str) -> _Words:
    command = getattr(import_module(f"halfwave.commands.{name}"), name.capitalize())
    options = options_of(command)
    listed = next((option.choices for option in options if option.positional and option.choices), ())
    return _Words(name, options, (*listed, *_names(name)))


def _names(command: str) -> tuple[str, ...]:
    """Names for the first place of a command."""
    known = tuple(recipe.name for recipe in recipes())
    return {
        "train": (*known, *GENERAL),
        "plan": known,
        "profile": known,
        "data": tuple(GENERATORS),
        "reproduce": ("all", *experiment_names()),
    }.get(command, ())


def _values(option: Option) -> tuple[str, ...]:
    return PRECISIONS if option.name == "precision" else option.choices


def _bash(words: Sequence[_Words]) -> list[str]:
    """A function that chooses among words; where none fits, bash completes the names of files."""
    values = [
        f"    '{own.command} {flag}') words='{' '.join(found)}' ;;"
        for own in words
        for flag, found in own.values.items()
    ]
    options = [f"      {own.command}) words='{' '.join(own.flags)}' ;;" for own in words]
    names = [f"      {own.command}) words='{' '.join(own.names)}' ;;" for own in words if own.names]
    return [
        "_halfwave() {",
        '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"',
        '  local command="${COMP_WORDS[1]}" words=""',
        '  case "$command $prev" in',
        *values,
        "    *)",
        f"    if [ \"$COMP_CWORD\" -eq 1 ]; then words='{' '.join(COMMANDS)} --help --version'",
        '    elif [ "${cur:0:1}" = "-" ]; then case "$command" in',
        *options,
        '    esac; elif [ "$COMP_CWORD" -eq 2 ]; then case "$command" in',
        *names,
        "    esac; fi ;;",
        "  esac",
        '  COMPREPLY=( $(compgen -W "$words" -- "$cur") )',
        "}",
        "complete -o default -F _halfwave halfwave",
    ]


def _fish(words: Sequence[_Words]) -> list[str]:
    lines = [
        f"complete -c halfwave -n __fish_use_subcommand -a {name} -d {_quoted(text)}" for name, text in COMMANDS.items()
    ]
    for own in words:
        seen = f"complete -c halfwave -n '__fish_seen_subcommand_from {own.command}'"
        lines += [f"{seen} -a '{' '.join(own.names)}'"] if own.names else []
        for flag in own.flags:
            values = own.values.get(flag)
            lines.append(f"{seen} -l {flag[2:]}" + (f" -x -a '{' '.join(values)}'" if values else ""))
    return lines


def _quoted(text: str) -> str:
    escaped = text.replace("'", "\\'")
    return f"'{escaped}'"
