"""The command line, `attn-closed-form`: parse the arguments, run one command of this folder, and
fail as Unix tools do.

Exit status: 0 success; 1 failure (with the reason in one line on standard error); 2 wrong usage;
130 interrupted; 141 the reader closed the pipe. Results go to standard output, everything else to
standard error.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from ... import __version__
from ..._arrays import did_you_mean
from ..show.sanitize import visible
from . import COMMANDS
from .help import FittedHelp

# The name of the program, what it does, its main uses, and more of them.
PROG = "attn-closed-form"
# The first line of `--help`.
DESCRIPTION = "Exact explanations of models that pool with a softmax: no sampling, no autodiff."
# Commands that a newcomer can copy.
USES = f"""\
  {PROG} explain "A slow start, but a wonderful film."      # or a file, or - for standard input
  {PROG} train reviews.csv --out model.npz                  # your texts and labels; then explain --model model.npz
  {PROG} bag model.pt slide.h5 --map map.png                # your bags: signed maps, one per class
"""  # noqa: E501
# The end of `--help`.
EXAMPLES = f"examples:\n{USES}\n`{PROG} COMMAND --help` describes each command.\n"


class Parser(argparse.ArgumentParser):
    """A parser with one-line errors that suggest the nearest name for a mistyped one."""

    def error(self, message: str) -> NoReturn:
        """Report the error, and point to the help."""
        # Only the message of argparse has the wrong name and the choices.
        if wrong := re.match(
            r"argument [^:]*: invalid choice: '(.*?)' \(choose from (.*)\)", message
        ):
            message += did_you_mean(wrong[1], re.split(r"[', ]+", wrong[2]))
        self.exit(2, f"{self.prog}: error: {visible(message)} (see {self.prog} --help)\n")


class Completion(argparse.Action):
    """The option that prints a completion script and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print the script."""
        print(completion())
        parser.exit()


def make_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Build the parser of all commands; only `command` gets its options, so that no other module is
    imported.
    """
    style = FittedHelp
    parser = Parser(prog=PROG, description=DESCRIPTION, epilog=EXAMPLES, formatter_class=style)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument(
        "--completion",
        action=Completion,
        nargs=0,
        help="print a completion script for bash and zsh",
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, line) in COMMANDS.items():
        added = subparsers.add_parser(name, help=line, formatter_class=style)
        if name == command:
            commands = importlib.import_module(f".{module}", __package__)
            getattr(commands, f"{name}_command").add_to(added)
    return parser


def options_of(command: str) -> list[str]:
    """Return the options of a command, and the names of its subcommands.

    >>> options_of("methods")
    ['--help', '--json', '-h']
    """
    words: set[str] = set()
    waiting = [_choices(make_parser(command))[command]]
    while waiting:
        parser = waiting.pop()
        words |= {*parser._option_string_actions, *_choices(parser)}
        waiting += _choices(parser).values()
    return sorted(words)


def _choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of a parser's commands."""
    commands = (
        action.choices
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return dict(next(commands, {}))


def completion() -> str:
    """Return a script that completes commands and options: `eval "$(attn-closed-form
    --completion)"`.
    """
    cases = "\n".join(f'    {name}) words="{" ".join(options_of(name))}" ;;' for name in COMMANDS)
    return f"""\
# eval "$({PROG} --completion)" in ~/.bashrc; in ~/.zshrc, after: autoload -U bashcompinit && bashcompinit
_attn_closed_form() {{
  local words="{" ".join(COMMANDS)} --help --version"
  [ "$COMP_CWORD" -gt 1 ] && case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _attn_closed_form {PROG}"""  # noqa: E501


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return the exit status.

    >>> main(["methods"])  # doctest: +ELLIPSIS
    shapley ...
    0
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show α shows ? instead of failing.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if argv is None:
        argv = sys.argv[1:]
    words = list(argv)
    if not words:
        print(
            f"{DESCRIPTION}\n{USES}  {PROG} --help  # the other commands: transformer, corpus, "
            "serve, ..."
        )
        return 0
    # Unknown arguments are errors here and not in argparse, so that a similar name can be
    # suggested.
    parser = make_parser(words[0])
    args, args_left = parser.parse_known_args(words)
    if args_left and not getattr(args, "passes_on", False):
        hint = did_you_mean(args_left[0].partition("=")[0], options_of(args.command))
        parser.error(f"unrecognized arguments: {' '.join(args_left)}{hint}")
    args.passed_on = args_left
    try:
        # Each warning is one line without Python's file and line number, which mean nothing to
        # users.
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = _show_warning
            return piped(lambda: int(args.run(args)))
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        return 130
    except (OSError, ValueError, ImportError, MemoryError) as error:
        print(f"{PROG}: error: {_one_line(error)}", file=sys.stderr)
        return 1


def piped(run: Callable[[], int]) -> int:
    """Return `run()`, or status 141 instead of a traceback if the reader closed the pipe."""
    try:
        status = run()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Python flushes standard output once more at exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def program() -> str:
    """Return how to call this program from the current folder: its name on the PATH, its file, or a
    module.
    """
    if shutil.which(PROG):
        return PROG
    # In a virtual environment that is not active, the program is next to Python.
    script = Path(sys.executable).with_name(PROG)
    if not script.exists():
        return "python -m attn_closed_form"
    if script.is_relative_to(Path.cwd()):
        return str(script.relative_to(Path.cwd()))
    return str(script)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"{PROG}: warning: {visible(str(message))}", file=sys.stderr)


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return visible(f"{error.filename}: {error.strerror}")
    if isinstance(error, OSError) and error.strerror:
        return visible(error.strerror)
    return visible(str(error) or type(error).__name__)
