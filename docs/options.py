"""Write the page of all options of the command line: python docs/options.py."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from romco.cli.main import BUILT_IN, app

PAGE = Path(__file__).with_name("reference") / "command-line.md"
HEAD = """# Command line

All commands and their options, as `romco COMMAND --help` prints them. Written by
`python docs/options.py`; do not edit by hand.
[From a file](../tutorial-cli.md) shows how they are used.
"""


def page() -> str:
    """Return the page in Markdown."""
    group: Any = typer.main.get_command(app)
    with group.make_context("romco", ["--version"], resilient_parsing=True) as context:
        commands = {name: group.get_command(context, name) for name in BUILT_IN}
    sections = (section(name, command) for name, command in commands.items())
    parts = [line for lines in sections for line in lines]
    return "\n".join([HEAD, *parts]) + "\n"


def title(argument: Any) -> str:
    """Return an argument as the usage shows it."""
    return str(argument.metavar or argument.name.upper())


def section(name: str, command: Any) -> Iterator[str]:
    """Yield the lines of one command."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    usage = " ".join(["romco", name, *(title(one) for one in arguments)])
    yield f"## {name}\n"
    yield f"`{usage}`\n"
    yield f"{(command.help or '').strip()}\n"
    yield "| option | meaning | default |"
    yield "|---|---|---|"
    for parameter in command.params:
        names = ", ".join(f"`{text}`" for text in parameter.opts)
        if parameter in arguments:
            names = f"`{title(parameter)}`"
        default = parameter.default
        shown = "" if callable(default) or default in (None, False, [], ()) else f"`{default}`"
        if parameter.required:
            shown = "required"
        meaning = (parameter.help or "").replace("|", "\\|")
        yield f"| {names} | {meaning} | {shown} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
