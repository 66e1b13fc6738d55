"""Messages between the checker and the process that runs the candidate: JSON and arrays, never objects."""

from __future__ import annotations

import json
import math
import struct
from typing import Any, BinaryIO

import numpy as np

from overt.errors import DtypeError

Arrays = dict[str, np.ndarray]
_LENGTH = struct.Struct("<q")
# A message beyond this is a candidate that returned something absurd.
LARGEST = 1 << 30


class ForgedError(Exception):
    """What came through the pipe is no message: somebody else wrote there."""


def send(stream: BinaryIO, message: dict[str, Any], arrays: Arrays | None = None) -> None:
    """Write one message: its length, that of its head, the head in JSON, and then the bytes of the arrays."""
    given = {name: np.asarray(array) for name, array in (arrays or {}).items()}
    if any(array.dtype.hasobject for array in given.values()):
        raise DtypeError("an array of objects is no array of numbers: give numbers")
    described = [(name, array.dtype.str, array.shape) for name, array in given.items()]
    head = json.dumps({"message": message, "arrays": described}).encode()
    bodies = [array.tobytes() for array in given.values()]
    size = _LENGTH.size + len(head) + sum(map(len, bodies))
    stream.write(b"".join((_LENGTH.pack(size), _LENGTH.pack(len(head)), head, *bodies)))
    stream.flush()


def parse(data: bytes) -> tuple[dict[str, Any], Arrays]:
    """One message without its length.  Nothing is unpickled.  Raises ForgedError for what is no message."""
    try:
        at = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        head = json.loads(data[_LENGTH.size : at])
        message, arrays = head["message"], {}
        for name, kind, shape in head["arrays"]:
            array = np.frombuffer(data, kind, math.prod(shape), at) if math.prod(shape) else np.empty(0, kind)
            arrays[name] = array.reshape(shape).copy()
            at += array.nbytes
        if at != len(data):
            raise ForgedError(f"{len(data)} bytes where {at} were announced")
    except Exception as error:  # What is no message may be wrong in any way.
        raise ForgedError(f"no message: {error}") from None
    if not isinstance(message, dict):
        raise ForgedError(f"a message is a dict, not {type(message).__name__}")
    return message, arrays


def receive(stream: BinaryIO) -> tuple[dict[str, Any], Arrays] | None:
    """Read one message; None where the stream has ended."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    return parse(stream.read(_LENGTH.unpack(head)[0]))
