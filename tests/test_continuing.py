"""Calls in pieces: caches of any kind are found by what they do, and compared with all tokens at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session

CODE = '''
from typing import NamedTuple

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

class Sliding(Zorp):
    """x (B, T, W); keys are kept as they were turned."""
    back, kept_bare, sinks = 6, False, 0

    def turned(self, x, first):
        angles = (first + np.arange(x.shape[1]))[:, None] * 10000.0 ** (-np.arange(0, x.shape[2], 2) / x.shape[2])
        a, b = np.split(x, 2, -1)
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def seen(self, past):
        return past["seen"]

    def __call__(self, x, past=None):
        q, k, v = x @ self.a, x @ self.b, x @ self.c
        first = 0 if past is None else self.seen(past)
        if not self.kept_bare:
            q, k = self.turned(q, first), self.turned(k, first)
        if past is not None:
            k, v = np.concatenate([past["k"], k], 1), np.concatenate([past["v"], v], 1)
        keep = [*range(min(self.sinks, k.shape[1])), *range(max(self.sinks, k.shape[1] - self.back), k.shape[1])]
        left = {"k": k[:, keep], "v": v[:, keep], "seen": first + x.shape[1]}
        if self.kept_bare:
            q, k = self.turned(q, k.shape[1] - q.shape[1]), self.turned(k, 0)
        s = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
        away = np.arange(k.shape[1]) - np.arange(q.shape[1])[:, None] - k.shape[1] + q.shape[1]
        return soft(np.where((away <= 0) & (away >= -self.back), s, -np.inf)) @ v, left

class SlidingLate(Sliding):
    """x (B, T, W); keys are kept as they were turned."""
    def seen(self, past):
        return past["k"].shape[1]

class SlidingBare(Sliding):
    """x (B, T, W); keys are kept bare, and turned by where they lie among those that are kept."""
    kept_bare = True

class SlidingSinks(SlidingBare):
    """x (B, T, W); keys are kept bare, and turned by where they lie; the first two are always kept."""
    sinks = 2

class ByDistance(Zorp):
    """x (B, T, W), causal; the last row of the table belongs to distance 0, the row before it to distance 1."""
    lengths = 32

    def __init__(self, dim):
        super().__init__(dim)
        self.far = np.random.default_rng(1).normal(size=(self.lengths, dim))

    def rows(self, T):
        return self.far[len(self.far) - T:]

    def __call__(self, x):
        q, k, v = x @ self.a, x @ self.b, x @ self.c
        T = x.shape[1]
        one = np.pad(q @ self.rows(T).T, ((0, 0), (0, 0), (1, 0))).reshape(len(x), T + 1, T)[:, 1:]
        s = (q @ k.swapaxes(-1, -2) + one) / q.shape[-1] ** 0.5
        return soft(np.where(np.tri(T, dtype=bool), s, -np.inf)) @ v

class ByDistanceFromTheEnd(ByDistance):
    """x (B, T, W), causal; the last row of the table belongs to distance 0, the row before it to distance 1."""
    def rows(self, T):
        return self.far[:T]

class NormedOverTime(Zorp):
    """x (B, T, W), causal"""
    def __call__(self, x):
        x = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
        return self.mix(x @ self.a, x @ self.b, x @ self.c)

class Notes(NamedTuple):
    keys: np.ndarray
    values: np.ndarray
    full: int

def notes(longest, width):
    return Notes(np.zeros((longest, width)), np.zeros((longest, width)), 0)

def noted(x, notes=None):
    """x (T, W), causal; gives what attends and the notes, with the new keys in it"""
    T, W = x.shape
    if notes is None:
        hidden = ~np.tri(T, dtype=bool)
        return soft(np.where(hidden, -np.inf, x @ x.T / W ** 0.5)) @ x, None
    keys, values = notes.keys.copy(), notes.values.copy()
    keys[notes.full : notes.full + T] = values[notes.full : notes.full + T] = x
    hidden = np.arange(len(keys)) > np.arange(T)[:, None] + notes.full
    y = soft(np.where(hidden, -np.inf, x @ keys.T / W ** 0.5)) @ values
    return y, Notes(keys, values, notes.full + T)

def noted_wrong(x, notes=None):
    """x (T, W), causal; gives what attends and the notes, with the new keys in it"""
    T, W = x.shape
    if notes is None:
        return noted(x)
    y, more = noted(x, notes)
    s = x @ more.keys[: more.full].T / W ** 0.5
    hidden = np.arange(more.full) > np.arange(T)[:, None]
    return soft(np.where(hidden, -np.inf, s)) @ more.values[: more.full], more

class Asking(Zorp):
    """x (B, T, W), causal, then asks memory (B, S, W)"""
    def __call__(self, x, memory):
        x = x + self.mix(x @ self.a, x @ self.b, x @ self.c)
        return x + soft(x @ self.b @ (memory @ self.a).swapaxes(1, 2) / x.shape[2] ** 0.5) @ (memory @ self.c)
'''


@pytest.mark.parametrize(("name", "expected"), [
    ("Given", set()), ("Held", set()), ("Asked", set()), ("AskedWrong", {"causal_top_left"}),
    ("Built", set()), ("BuiltWrong", {"causal_top_left"}),
    ("GivenWrong", {"causal_top_left"}), ("HeldWrong", {"causal_top_left"}),
    ("Sliding", set()), ("SlidingLate", {"rope_offset"}), ("SlidingBare", set()), ("SlidingSinks", set()),
    ("noted", set()), ("noted_wrong", {"causal_top_left"}),
])  # fmt: skip
def test_a_cache_of_any_kind_is_found(session: Session, name: str, expected: set[str], tmp_path: Path) -> None:
    file = tmp_path / f"pieces_{name.lower()}.py"
    file.write_text(CODE)
    report = examine(session, f"{file}:{name}")
    assert {f.id for f in report.findings if f.kind == "mistake"} == expected


@pytest.mark.parametrize(("name", "wrong"), [
    ("ByDistance", False), ("ByDistanceFromTheEnd", True), ("NormedOverTime", True), ("Asking", False),
])  # fmt: skip
def test_what_is_causal_is_the_same_where_nothing_more_comes(
    session: Session, name: str, wrong: bool, tmp_path: Path
) -> None:
    file = tmp_path / f"begun_{name.lower()}.py"
    file.write_text(CODE)
    report = examine(session, f"{file}:{name}")
    assert {f.id for f in report.findings if f.kind in ("mistake", "unknown")} == ({"unknown"} if wrong else set())
