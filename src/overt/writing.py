"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from overt.errors import FileError


@contextmanager
def replaced(path: str | Path) -> Iterator[IO[bytes]]:
    """A file that takes its name when all of it is there; what fails leaves what was there before."""
    # What a link points to is replaced, not the link.
    named, path = path, Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        # A pipe or a device has nothing to lose; a folder says what it is.
        try:
            with path.open("wb") as file:
                yield file
        except OSError as error:
            raise FileError(f"cannot write {named}: {error.strerror or error}") from None
        return
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise FileError(
            f"cannot write {named}: {error.strerror}; give a path in a folder that can be written"
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            # A name is given to nothing that a crash could still empty.
            file.flush()
            os.fsync(file.fileno())
        # mkstemp lets nobody else read.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise FileError(f"cannot write {named}: {error.strerror or error}") from None
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
