"""Command line: commands are imported when they run, so that each starts quickly."""

import os
import sys
from importlib.metadata import EntryPoint, entry_points
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from romco.version import __version__

BUILT_IN = {  # command: module:function
    "fit": "romco.cli.learn:fit",
    "learn": "romco.cli.learn:learn",
    "predict": "romco.cli.answer:predict",
    "evaluate": "romco.cli.answer:evaluate",
    "explain": "romco.cli.answer:explain",
    "effects": "romco.cli.answer:effects",
    "export": "romco.cli.answer:export",
    "ask": "romco.cli.learn:ask",
    "evaluate-policy": "romco.cli.policies:evaluate_policy",
    "compare": "romco.cli.compare:compare",
    "learners": "romco.cli.compare:learners",
    "datasets": "romco.cli.compare:datasets",
    "serve": "romco.cli.serve:serve",
    "forget": "romco.cli.forget:forget",
    "verify": "romco.cli.forget:verify",
    "token": "romco.cli.serve:token",
}
GROUP = "romco.commands"  # entry points: functions with Typer's annotations


class StrictCommand(TyperCommand):
    """A command none of whose options takes another option for its value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments; a value that begins with -- must be written --option=--value."""
        valued: set[str] = set()
        for parameter in self.params:
            if not getattr(parameter, "is_flag", True):
                valued.update(parameter.opts)
        for option, value in pairwise(args):
            if option in valued and value.startswith("--"):
                ctx.fail(f"{option} needs a value; if {value} is one, write {option}={value}")
        return super().parse_args(ctx, args)


class LazyCommands(TyperGroup):
    """Commands of this package and of installed ones, imported when one is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, built-in ones first."""
        return list(_commands())

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that arguments name; an error suggests names that are close."""
        import difflib  # here, so that commands start quickly

        commands = list(_commands())
        close = difflib.get_close_matches(args[0], commands, 3)
        if close and args[0] not in commands:
            ctx.fail(f"No such command {args[0]!r}; did you mean {' or '.join(close)}?")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name, None where there is none."""
        entry = _commands().get(cmd_name)
        if entry is None:
            return None
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(cmd_name, cls=StrictCommand)(entry.load())
        return typer.main.get_command(app)


def _commands() -> dict[str, EntryPoint]:
    built_in = {name: EntryPoint(name, where, GROUP) for name, where in BUILT_IN.items()}
    added = {entry.name: entry for entry in entry_points(group=GROUP)}
    return built_in | {name: added[name] for name in sorted(added) if name not in built_in}


app = typer.Typer(
    cls=LazyCommands,
    help="Online multi-task learning: one linear model per task, shared where tasks agree.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; an error is a line on stderr and exit code 2."""
    try:
        app()
    except BrokenPipeError:  # who read our output has had enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError, ArithmeticError, MemoryError, ImportError) as error:
        from rich.console import Console
        from rich.markup import escape

        text = f"[red]error:[/red] {escape(_reason(error))}"
        Console(stderr=True).print(text, soft_wrap=True, highlight=False)
        sys.exit(2)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        what = error.strerror
        if error.filename:
            what = f"{error.filename}: {error.strerror}"
    else:
        what = str(error) or type(error).__name__
    what = " ".join([what, *(f"({note})" for note in getattr(error, "__notes__", []))])
    return "".join(c if c.isprintable() else " " for c in what)
