"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from overt.errors import ArgumentError


@contextmanager
def replaced(path: str | Path) -> Iterator[IO[bytes]]:
    """A file that takes its name when all of it is there; what fails leaves what was there before."""
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise ArgumentError(
            f"cannot write {path}: {error.strerror}; give a path in a folder that can be written"
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        # mkstemp lets nobody else read.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise ArgumentError(f"cannot write {path}: {error.strerror or error}") from None
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
