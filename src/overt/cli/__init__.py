"""The command line.  Each command is a module of this package that is imported when somebody asks for it."""

from __future__ import annotations

import codecs
import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from types import FrameType
from typing import Any

import click

from overt import __version__
from overt.errors import OvertError, StoppedError

# In the order of --help.  The module overt.cli.<name> holds the command, under the name `command`.
COMMANDS: tuple[str, ...] = ("translate", "show", "record", "check", "train", "attend", "models", "export")


def _debugged(context: click.Context, option: click.Parameter, value: bool) -> None:
    # All contexts of one run share this.
    context.meta["debug"] = value or context.meta.get("debug", False)


def _debug() -> click.Option:
    return click.Option(
        ["--debug"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_debugged,
        help="Show the traceback of what fails.",
    )


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"overt.cli.{cmd_name}").command
        for one in (command, *getattr(command, "commands", {}).values()):
            if not any(option.name == "debug" for option in one.params):
                one.params.append(_debug())
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="overt", message="%(prog)s %(version)s")
def group() -> None:
    """Attention that anyone can see."""


group.params.append(_debug())


def main(arguments: list[str] | None = None) -> None:
    """Run a command.  What goes wrong is one line on stderr and exit code 2; with --debug, its traceback before it."""
    _open_streams()
    meta: dict[str, Any] = {}
    try:
        with _stopped_in_order():
            given = sys.argv[1:] if arguments is None else list(arguments)
            # A command returns its exit code, or nothing.
            with group.make_context("overt", given) as context:
                meta = context.meta
                code = group.invoke(context) or 0
            # What cannot be written any more is found out here, and not by Python at its exit.
            if sys.stdout is not None:
                sys.stdout.flush()
    except BaseException as error:
        if meta.get("debug") and not isinstance(error, click.exceptions.Exit | SystemExit):
            click.echo(traceback.format_exc(), err=True, nl=False)
        code, message = _told(error)
        if isinstance(error, OSError):
            # What is left of the output cannot be written either; Python would try, and complain.
            sys.stdout = None
        if message:
            # Names and texts in a message come from files, and must not steer the terminal.
            text = "".join(c if c.isprintable() else "�" for c in " ".join(message.split()))
            click.echo(f"overt: {text}", err=True)
    sys.exit(code)


def _told(error: BaseException) -> tuple[int, str]:
    """The exit code for an exception, and what is said of it."""
    match error:
        case click.exceptions.Exit():
            return error.exit_code, ""
        case click.exceptions.NoArgsIsHelpError():
            click.echo(error.format_message())
            return 0, ""
        case click.ClickException():
            return 2, error.format_message()
        case OvertError():
            return 2, str(error)
        case click.Abort() | KeyboardInterrupt():
            return 130, ""
        case StoppedError():
            return int(error.code or 0), ""
        case SystemExit() if not isinstance(error.__context__, BrokenPipeError):
            return 2, f"the code that was run ended the process (SystemExit: {error.code})"
        case SystemExit() | BrokenPipeError():
            # Whoever read the output has seen enough.  (rich turns the one into the other.)
            return 141, ""
        case MemoryError():
            return 2, f"there is not enough memory for this: {error}".removesuffix(": ")
        case OSError():
            # Files say their names; what has none is a stream, such as output with a full disk behind it, or a limit.
            stream = error.errno in (errno.EBADF, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
            named = error.filename or ("standard input or output" if stream else "the system refuses")
            return 2, f"{named}: {error.strerror or str(error) or type(error).__name__}"
        case _:
            return 2, f"this should not happen, {type(error).__name__}: {error} (--debug shows where)"


def _open_streams() -> None:
    """Standard streams that take any text, and fail where they were closed instead of being somebody else's file."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            # Opened the wrong way round, so that who reads or writes it hears of it.  It gets the lowest number free.
            os.open(os.devnull, os.O_WRONLY if mode == "r" else os.O_RDONLY)
            if name != "stderr":
                setattr(sys, name, os.fdopen(number, mode, closefd=False))
        stream = getattr(sys, name)
        if mode == "w" and isinstance(stream, TextIOWrapper):
            # ASCII is what Python believes of a terminal of which nobody said anything; click writes UTF-8 there, too.
            unknown = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding="utf-8" if unknown else stream.encoding, errors="replace")


def _stop(number: int, frame: FrameType | None) -> None:
    raise StoppedError(number)


@contextmanager
def _stopped_in_order() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind, so that what is temporary is removed; what was ignored stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    changed = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in changed:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)
