"""Parallel text in files: one file of tab-separated pairs, or two files line by line, plain or gzip."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from overt.errors import FileError
from overt.models.vocabulary import normalized

Text = tuple[str, str]
"""A source sentence and its translation."""


def read(paths: Sequence[Path]) -> list[Text]:
    """The pairs of one tab-separated file (first two fields) or of two files.  Raises FileError with the line."""
    pairs = list(_columns(paths[0])) if len(paths) == 1 else list(_rows(*paths))
    if not pairs:
        raise FileError(f"{paths[0]} holds no pairs")
    return pairs


def split(pairs: Sequence[Text]) -> tuple[list[Text], list[Text], list[Text]]:
    """Train, dev and test: 38, 1 and 1 of 40 parts by the hash of the source, so that none of it is on two sides."""
    parts: tuple[list[Text], list[Text], list[Text]] = ([], [], [])
    for source, target in pairs:
        bucket = int(hashlib.sha256(source.strip().encode()).hexdigest(), 16) % 40
        parts[{0: 2, 1: 1}.get(bucket, 0)].append((source, target))
    return parts


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, gzip or not, without their ends."""
    number = 0
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == b"\x1f\x8b"
            with gzip.GzipFile(fileobj=raw) if packed else raw as file:
                for number, line in enumerate(file, 1):  # noqa: B007, the errors below name it
                    yield line.rstrip(b"\r\n").decode()
    except UnicodeDecodeError as error:
        raise FileError(f"{path}, line {number}: not UTF-8 ({error.reason} at byte {error.start})") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileError(f"{path}, after line {number}: damaged gzip file ({error})") from None
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None


def _columns(path: Path) -> Iterator[Text]:
    for number, line in enumerate(lines(path), 1):
        fields = line.split("\t")
        if len(fields) < 2:
            raise FileError(f"{path}, line {number}: no tab between source and translation")
        yield _pair(fields[0], fields[1], f"{path}, line {number}")


def _rows(source: Path, target: Path) -> Iterator[Text]:
    left, right = list(lines(source)), list(lines(target))
    if len(left) != len(right):
        raise FileError(
            f"{source} has {len(left)} lines and {target} {len(right)}: line n of one translates the other's"
        )
    for number, (first, second) in enumerate(zip(left, right, strict=True), 1):
        yield _pair(first, second, f"{source} and {target}, line {number}")


def _pair(source: str, target: str, where: str) -> Text:
    for name, text in (("source", source), ("translation", target)):
        if not normalized(text):
            raise FileError(f"{where}: the {name} is empty")
    return source, target
