"""The command line.  Each command is a module of this package that is imported when somebody asks for it."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from overt import __version__
from overt.errors import OvertError

# In the order of --help.  The module overt.cli.<name> holds the command, under the name `command`.
COMMANDS: tuple[str, ...] = ("translate", "show", "check", "train", "models", "export")


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return import_module(f"overt.cli.{cmd_name}").command if cmd_name in COMMANDS else None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="overt", message="%(prog)s %(version)s")
def group() -> None:
    """Attention that anyone can see."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command.  What the user got wrong is one line on stderr and exit code 2."""
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        # A command returns its exit code, or nothing.
        with group.make_context("overt", given) as context:
            code = group.invoke(context)
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        code = 0
    except (click.ClickException, OvertError) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        # Names and texts in a message come from files, and must not steer the terminal.
        click.echo("overt: " + "".join(c if c.isprintable() else "�" for c in " ".join(message.split())), err=True)
        code = 2
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        # Whoever read the output has seen enough; what Python flushes at exit must not complain.
        sys.stdout = None
        code = 141
    except (OSError, MemoryError) as error:
        # Such as a full disk behind the output.
        click.echo(f"overt: {getattr(error, 'strerror', None) or error or 'not enough memory'}", err=True)
        code = 2
    sys.exit(code or 0)
