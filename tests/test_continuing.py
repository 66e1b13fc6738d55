"""Calls in pieces: caches of any kind are found by what they do, and compared with all tokens at once."""

from __future__ import annotations

from pathlib import Path

import pytest

import overt

CODE = '''
import numpy as np

def soft(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

class Zorp:
    """Causal attention."""
    late = True

    def __init__(self, dim):
        self.a, self.b, self.c = np.random.default_rng(0).normal(size=(3, dim, dim)) / dim**0.5

    def mix(self, q, k, v):
        s = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
        keep = np.tri(q.shape[1], k.shape[1], (k.shape[1] - q.shape[1]) * self.late, dtype=bool)
        return soft(np.where(keep, s, -np.inf)) @ v

class Given(Zorp):
    def __call__(self, x, glim=None):
        q, k, v = x @ self.a, x @ self.b, x @ self.c
        if glim is not None:
            k, v = np.concatenate([glim["one"], k], 1), np.concatenate([glim["two"], v], 1)
        return self.mix(q, k, v), {"one": k, "two": v}

class Held(Zorp):
    def __init__(self, dim):
        super().__init__(dim)
        self.past = []

    def __call__(self, x):
        self.past.append(x)
        whole = np.concatenate(self.past, 1)
        return self.mix(x @ self.a, whole @ self.b, whole @ self.c)

class Room:
    def __init__(self):
        self.kept = []

class Asked(Zorp):
    def rooms(self):
        return [Room() for _ in range(1)]

    def __call__(self, x, rooms=None):
        whole = x
        if rooms is not None:
            rooms[0].kept.append(x)
            whole = np.concatenate(rooms[0].kept, 1)
        return self.mix(x @ self.a, whole @ self.b, whole @ self.c)

class Wide:
    def __init__(self, batch, width):
        self.one = np.zeros((batch, 0, width))

    def put(self, x):
        self.one = np.concatenate([self.one, x], 1)
        return self.one

class Built(Zorp):
    def __call__(self, x, past: Wide = None):
        whole = x if past is None else past.put(x)
        return self.mix(x @ self.a, whole @ self.b, whole @ self.c)

class BuiltWrong(Built):
    late = False

class AskedWrong(Asked):
    late = False

class GivenWrong(Given):
    late = False

class HeldWrong(Held):
    late = False
'''


@pytest.mark.parametrize(("name", "expected"), [
    ("Given", set()), ("Held", set()), ("Asked", set()), ("AskedWrong", {"causal_top_left"}),
    ("Built", set()), ("BuiltWrong", {"causal_top_left"}),
    ("GivenWrong", {"causal_top_left"}), ("HeldWrong", {"causal_top_left"}),
])  # fmt: skip
def test_a_cache_of_any_kind_is_found(name: str, expected: set[str], tmp_path: Path) -> None:
    file = tmp_path / f"pieces_{name.lower()}.py"
    file.write_text(CODE)
    report = overt.check(f"{file}:{name}")
    assert {f.id for f in report.findings if f.kind == "mistake"} == expected
