"""Messages between the checker and the process that runs the candidate: JSON and arrays, never objects."""

from __future__ import annotations

import io
import json
import struct
from typing import Any, BinaryIO

import numpy as np

Arrays = dict[str, np.ndarray]
# A message beyond this is a candidate that returned something absurd.
LARGEST = 1 << 30


class ForgedError(Exception):
    """What came through the pipe is no message: somebody else wrote there."""


def send(stream: BinaryIO, message: dict[str, Any], arrays: Arrays | None = None) -> None:
    """Write one message: its length, then an npz file whose member ``json`` is the message."""
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(message).encode(), np.uint8)
    np.savez(buffer, json=text, **{f"a_{name}": array for name, array in (arrays or {}).items()})  # type: ignore[arg-type]
    stream.write(struct.pack("<q", buffer.tell()) + buffer.getvalue())
    stream.flush()


def parse(data: bytes) -> tuple[dict[str, Any], Arrays]:
    """One message without its length.  Nothing is unpickled.  Raises ForgedError for what is no message."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            if sum(member.file_size for member in file.zip.infolist()) > LARGEST:
                raise ForgedError("its arrays are too large")
            message = json.loads(file["json"].tobytes())
            arrays = {name.removeprefix("a_"): file[name] for name in file.files if name != "json"}
    except Exception as error:  # What a broken archive raises is nowhere written down.
        raise ForgedError(f"no message: {error}") from None
    if not isinstance(message, dict):
        raise ForgedError(f"a message is a dict, not {type(message).__name__}")
    return message, arrays


def receive(stream: BinaryIO) -> tuple[dict[str, Any], Arrays] | None:
    """Read one message; None where the stream has ended."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    return parse(stream.read(struct.unpack("<q", head)[0]))
