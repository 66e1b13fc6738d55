"""Files and folders that are written whole or not at all: every file that the library writes goes through here."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from overt.errors import DtypeError, FileError


def located(path: str | os.PathLike[str]) -> Path:
    """A path as somebody gave it.  Raises DtypeError for what is none."""
    if not isinstance(path, str | os.PathLike):
        raise DtypeError(f"path must be the name of a file, a str or a Path, not {path!r:.60}")
    return Path(path)


@contextmanager
def replaced(path: str | Path) -> Iterator[IO[bytes]]:
    """A file that takes its name when all of it is there; what fails leaves what was there before.

    It has the permissions of the file that it replaces.  What a link points to is replaced, not the link.  What is no
    file that could be replaced (``streamed``) is written as it comes.
    Raises FileError, and BrokenPipeError where nobody reads a pipe any more.
    """
    path = located(path)
    try:
        before = _status(path)
        if streamed(path):
            with _stream(path) as file:
                yield file
        elif before is not None and not os.access(path, os.W_OK):
            raise FileError(f"cannot write {path}: it may only be read")
        else:
            with _whole(Path(os.path.realpath(path)), before) as file:
                yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FileError(_refusal(path, error)) from None


def streamed(path: str | Path) -> bool:
    """Whether a path is written as it comes: a pipe, a device, or a name for a descriptor such as /dev/stdout."""
    path = located(path)
    before = _status(path)
    return _descriptor(path) is not None or (before is not None and not stat.S_ISREG(before.st_mode))


@contextmanager
def replaced_folder(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A new folder that takes its name, and the permissions of the one that it replaces, when all of it is there.

    overwrite: put it in the place of a folder that holds files of the same names and no others.  Raises FileError.
    """
    path = located(path)
    try:
        before = _status(path)
        if before is not None and not overwrite:
            raise FileError(f"{path} exists already: choose another name, or say --overwrite (overwrite=True)")
        folder = Path(os.path.realpath(path))
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=_prefix(folder)) as temporary:
            new, old = Path(temporary, "new"), Path(temporary, "old")
            new.mkdir()
            yield new
            if before is None:
                new.rename(folder)
                return
            there, written = ({one.name for one in both.iterdir()} for both in (folder, new))
            if there and there != written:
                other = min(there - written, default="only a part of an export")
                raise FileError(f"{path} holds {other}, which no export wrote: choose another name")
            for name in there:
                shutil.copymode(folder / name, new / name)
            shutil.copymode(folder, new)
            folder.rename(old)
            try:
                new.rename(folder)
            except BaseException:
                old.rename(folder)
                raise
    except OSError as error:
        raise FileError(_refusal(path, error)) from None


@contextmanager
def alone(folder: Path, name: str) -> Iterator[None]:
    """A folder that no other process may have so at the same time; it is made where there is none.

    name: of the file whose lock says so, which the system takes back from a process that dies.  Raises FileError.
    """
    path, absent = folder / name, [path for path in (folder, *folder.parents) if not path.exists()]
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            while not _locked(handle := os.open(path, os.O_RDWR | os.O_CREAT, 0o666), path, held):
                os.close(handle)
        except BlockingIOError:
            raise FileError(
                f"another run writes into {folder}: wait until it has ended, or choose another folder"
            ) from None
        except FileExistsError:
            raise FileError(f"{folder} is a file: choose a folder for the results") from None
        except OSError as error:
            raise FileError(f"cannot write to {folder}: {error.strerror or error}") from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            # Where nothing was written there is no folder, either.
            with suppress(OSError):
                for one in absent:
                    one.rmdir()


def _locked(handle: int, path: Path, held: ExitStack) -> bool:
    """Lock a file until the end, unless who had the lock before has removed it.  Raises BlockingIOError."""
    # Not every system has it.
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Some filesystems have no locks.
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            os.close(handle)
            raise
    if not (path.exists() and os.path.samestat(os.fstat(handle), path.stat())):
        return False
    held.callback(os.close, handle)
    return True


def _status(path: Path) -> os.stat_result | None:
    """What a path leads to, or None; raises OSError for a loop of links."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise FileError(f"cannot write {str(path)!r}: {error}") from None


def _refusal(path: Path, error: OSError) -> str:
    # What is missing, or may not be written to, is the folder.
    absent = isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError) and not path.exists()
    advice = "; give a path in a folder that can be written" if absent else ""
    return f"cannot write {path}: {error.strerror or error}{advice}"


def _prefix(path: Path) -> str:
    # A name may have 255 bytes, and a character four.
    return f".{path.name[:40]}."


def _descriptor(path: Path) -> int | None:
    """The descriptor of this process that a path such as /dev/stdout or /dev/fd/3 stands for."""
    # As many links as Linux follows.
    for _ in range(40):
        folder = os.path.realpath(path.parent)
        if path.name.isdecimal() and re.fullmatch(rf"/dev/fd|/proc/{os.getpid()}(/task/\d+)?/fd", folder):
            return int(path.name)
        try:
            path = Path(folder, os.readlink(path))
        except OSError:
            return None
    return None


def _stream(path: Path) -> IO[bytes]:
    number = _descriptor(path)
    if number is None:
        return path.open("wb")
    # Opened anew, a file would lose what is in it already, and a socket could not be opened.
    for printed in (sys.stdout, sys.stderr):
        if printed is not None:
            printed.flush()
    return os.fdopen(os.dup(number), "wb")


@contextmanager
def _whole(path: Path, before: os.stat_result | None) -> Iterator[IO[bytes]]:
    """A regular file under another name, or where that can be under none, until it is complete."""
    # The system takes what the umask forbids from a new file; what replaces a file is nobody's before it has its mode.
    mode = 0o666 if before is None else 0o600
    temporary = path.parent / (_prefix(path) + secrets.token_hex(8))
    nameless = _nameless(path.parent, mode)
    handle = _opened(temporary, mode) if nameless is None else nameless
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            # A name is given to nothing that a crash could still empty.
            _complete(file, before)
            if nameless is not None:
                try:
                    # A link to a descriptor is followed only where a folder is given beside it.
                    os.link(f"/proc/self/fd/{handle}", temporary, src_dir_fd=handle, follow_symlinks=True)
                except OSError:
                    # Not every filesystem gives a name to what has none.
                    with (
                        open(f"/proc/self/fd/{handle}", "rb") as whole,
                        os.fdopen(_opened(temporary, mode), "wb") as copy,
                    ):
                        shutil.copyfileobj(whole, copy)
                        _complete(copy, before)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _opened(path: Path, mode: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)


def _complete(file: IO[bytes], before: os.stat_result | None) -> None:
    file.flush()
    if before is not None:
        _permit(file.fileno(), before)
    os.fsync(file.fileno())


def _nameless(folder: Path, mode: int) -> int | None:
    """A file without a name, of which nothing stays whatever ends the process: Linux has them, on most filesystems."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        with suppress(OSError):
            return os.open(folder, os.O_RDWR | os.O_TMPFILE, mode)
    return None


def _permit(handle: int, before: os.stat_result) -> None:
    """The owner, group and mode of a file, as far as this process may give them."""
    for owner, group in ((before.st_uid, -1), (-1, before.st_gid)):
        with suppress(PermissionError):
            os.fchown(handle, owner, group)
    mode = stat.S_IMODE(before.st_mode)
    # What its group might do is not for another one.
    os.fchmod(handle, mode if os.fstat(handle).st_gid == before.st_gid else mode & ~0o070)
