"""Write docs/cli.md, what `--help` says of every command: `make docs`."""

from pathlib import Path

import click

from pidual.cli import CONTEXT, cli

PAGE = Path(__file__).parent / "cli.md"
WIDTH = 110


def commands(group: click.Group, path: tuple[str, ...]) -> dict[tuple[str, ...], click.Command]:
    """Every command and command group below `group`, by the words that call it."""
    found: dict[tuple[str, ...], click.Command] = {path: group}
    for name, command in sorted(group.commands.items()):
        found |= commands(command, (*path, name)) if isinstance(command, click.Group) else {(*path, name): command}
    return found


def help_text(command: click.Command, path: tuple[str, ...]) -> str:
    """What `--help` prints, at a width of its own."""
    settings = {**CONTEXT, "terminal_width": WIDTH}
    return command.get_help(click.Context(command, info_name=" ".join(path), **settings))


def page() -> str:
    """The page."""
    parts = ["# The command line\n\nWritten by `make docs` from `--help`.\n"]
    for path, command in commands(cli, ("pidual",)).items():
        text = "\n".join(f"    {line}".rstrip() for line in help_text(command, path).splitlines())
        parts.append(f"## {' '.join(path)}\n{text}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"written: {PAGE}")
