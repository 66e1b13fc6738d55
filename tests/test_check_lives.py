"""Objects that are told something before they are asked, and masks and windows that text or code tells of."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.text.lives import Lives
from overt.recorder import record_operations

pytest.importorskip("torch")

SOURCE = '''
import math
from collections import deque, namedtuple

import numpy as np
import torch
from torch import nn

def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

class Streams:
    """A stream is opened, told keys and values, and asked; query head h reads key head h // (heads // kv)."""

    def __init__(self, n_heads, n_kv_heads, head_dim):
        assert n_heads % n_kv_heads == 0
        self.rep, self.d = n_heads // n_kv_heads, head_dim
        self.streams, self.last = {}, 0

    def open(self):
        self.last += 1
        self.streams[self.last] = ([], [])
        return self.last

    def close(self, sid):
        del self.streams[sid]

    def add(self, sid, k, v):
        """k, v: [tokens, n_kv_heads, head_dim]"""
        keys, values = self.streams[sid]
        keys.append(k)
        values.append(v)

    def repeat(self, x):
        return x.repeat_interleave(self.rep, 1)

    def ask(self, sids, q):
        """q: [len(sids), n_heads, head_dim], the newest token of each"""
        rows = []
        for row, sid in zip(q, sids):
            k, v = (self.repeat(torch.cat(x)) for x in self.streams[sid])
            s = torch.einsum("hd,shd->hs", row, k) / math.sqrt(self.d)
            rows.append(torch.einsum("hs,shd->hd", s.softmax(-1), v))
        return torch.stack(rows)

Thing = namedtuple("Thing", "key value")

class Memory:
    """Vectors are kept one by one, the latest of them."""

    def __init__(self, dim, room=99):
        self.scale, self.things = dim ** -0.5, deque(maxlen=room)

    def keep(self, key, value):
        self.things.append(Thing(np.asarray(key, float), np.asarray(value, float)))

    def weigh(self, s):
        return softmax(s * self.scale)

    def recall(self, query):
        """query (dim,) -> (value,)"""
        if not self.things:
            return np.zeros(1)
        w = self.weigh(np.stack([t.key for t in self.things]) @ query)
        return w @ np.stack([t.value for t in self.things])

class Notes:
    def __init__(self, dim):
        self.dim, self.pages, self.known = dim, {}, {}

    def write(self, page, keys, values):
        """keys (n, dim), values (n, e)"""
        self.pages[page] = (np.asarray(keys), np.asarray(values))

    def weights(self, page, question):
        name = (page, self.pages[page][0].tobytes())
        if True:
            self.known[name] = softmax(self.pages[page][0] @ question / math.sqrt(self.dim))
        return self.known[name]

    def read(self, page, question):
        """question (dim,) -> (e,)"""
        return self.weights(page, question) @ self.pages[page][1]

class Shelf:
    """ask(q) = softmax(q K^T / sqrt(d)) V for queries q (n, d)"""

    def __init__(self, dim, out_dim):
        self.keys, self.values, self.known = np.zeros((0, dim)), np.zeros((0, out_dim)), {}

    def remove(self, index):
        self.keys, self.values = np.delete(self.keys, index, axis=0), np.delete(self.values, index, axis=0)

    def add(self, key, value):
        self.keys, self.values = np.vstack([self.keys, key]), np.vstack([self.values, value])

    def ask(self, q):
        what = (self.keys.tobytes(), q.tobytes())
        if what not in self.known:
            self.known[what] = softmax(q @ self.keys.T / math.sqrt(q.shape[1]))
        return self.known[what] @ self.values

class Interests(nn.Module):
    """x [B, L, C], lens [B]: learned queries look at the first lens of each sample."""
    def __init__(self, dim, n_head=2, n=4):
        super().__init__()
        self.h, self.q = n_head, nn.Parameter(torch.randn(n, dim))
        self.wk, self.wv = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def fold(self, x):
        b, n, c = x.shape
        return x.view(b, n, self.h, c // self.h).transpose(1, 2).reshape(b * self.h, n, c // self.h)

    def each(self, hidden):
        return hidden.repeat_interleave(self.h, 0)

    def forward(self, x, lens):
        b, n, c = x.shape
        q, k, v = self.fold(self.q.expand(b, -1, -1)), self.fold(self.wk(x)), self.fold(self.wv(x))
        s = q @ k.transpose(1, 2) / math.sqrt(c // self.h)
        hidden = torch.arange(n)[None] >= lens[:, None]
        s = s.masked_fill(self.each(hidden)[:, None], -1e9)
        y = (s.softmax(-1) @ v).view(b, self.h, -1, c // self.h)
        return y.transpose(1, 2).reshape(b, -1, c)

class Fenster:
    """Kausal: i sieht genau die w Stellen i-w+1 ... i.  x (L, d) -> (L, d)"""
    def __init__(self, d, w=4, seed=0):
        r = np.random.default_rng(seed)
        self.w = w
        self.wq, self.wk, self.wv = (r.normal(0, d ** -0.5, (d, d)) for _ in range(3))

    def __call__(self, x):
        i, j = np.arange(len(x))[:, None], np.arange(len(x))[None]
        s = (x @ self.wq) @ (x @ self.wk).T / math.sqrt(x.shape[1])
        return softmax(np.where((j <= i) & (i - j < self.w), s, -np.inf)) @ (x @ self.wv)

class Secret(nn.Module):
    """Causal. secret [B, T] bool: True marks what no other token may know of."""
    def __init__(self, dim):
        super().__init__()
        self.inp = nn.Linear(dim, 3 * dim)

    def forward(self, x, secret=None):
        n = x.shape[1]
        q, k, v = self.inp(x).chunk(3, -1)
        s = q @ k.mT / math.sqrt(q.shape[-1])
        s = s.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        if secret is not None:
            s = s.masked_fill(secret[:, None] & ~torch.eye(n, dtype=torch.bool), float("-inf"))
        return s.softmax(-1) @ v

class Buckets(nn.Module):
    """x [B, L, C], mask [B, 1, 1, L] or [B, H, L, L]: 0 where visible, very negative elsewhere."""
    def __init__(self, dim, heads):
        super().__init__()
        self.h, self.inp, self.near = heads, nn.Linear(dim, 3 * dim), nn.Parameter(torch.randn(heads, 9))

    def forward(self, x, mask):
        b, n, c = x.shape
        q, k, v = (y.view(b, n, self.h, -1).transpose(1, 2) for y in self.inp(x).chunk(3, -1))
        i = torch.arange(n)
        if mask.shape[-2] == 1:
            mask = mask.repeat(1, self.h, n, 1)
        bias = self.near[:, (i[None] - i[:, None]).clamp(-4, 4) + 4]
        mask = mask + bias
        s = q @ k.mT / math.sqrt(c // self.h) + mask
        return (s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c)

class Answers(nn.Module):
    """question [B, Q, C], answers [B, N, A, C], answer_len [B, N]: each answer by itself."""
    def __init__(self, width, heads=4):
        super().__init__()
        self.look = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, question, answers, answer_len):
        b, n, a, c = answers.shape
        q = question.unsqueeze(1).expand(-1, n, -1, -1).flatten(0, 1)
        a_ = answers.flatten(0, 1)
        ignore = torch.arange(a)[None] >= answer_len.flatten()[:, None]
        ignore[:, 0] = False
        return self.look(q, a_, a_, key_padding_mask=ignore, need_weights=False)[0].mean(1).view(b, n, c)

class Skewed(nn.Module):
    """x [B, L, C]; silent [B, L] True at steps that nobody hears. Causal."""
    def __init__(self, dim, heads, longest=64):
        super().__init__()
        self.h, self.d, self.longest = heads, dim // heads, longest
        self.inp, self.E = nn.Linear(dim, 3 * dim), nn.Parameter(torch.randn(heads, longest, dim // heads))

    def forward(self, x, silent=None):
        b, n, c = x.shape
        q, k, v = (y.view(b, n, self.h, -1).transpose(1, 2) for y in self.inp(x).chunk(3, -1))
        far = torch.einsum("bhld,hrd->bhlr", q, self.E[:, self.longest - n :])
        far = nn.functional.pad(far, (1, 0)).reshape(b, self.h, n + 1, n)[:, :, 1:]
        hidden = torch.ones(n, n, dtype=torch.bool).triu(1)[None, None]
        if silent is not None:
            hidden = hidden | silent[:, None, None]
        s = ((q @ k.mT + far) / math.sqrt(self.d)).masked_fill(hidden, torch.finfo(x.dtype).min)
        return (s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c)
'''


# For each class of the source, what is written in place of what, and the mistake that this is.
WRONG = {
    "Streams": ("repeat_interleave(self.rep, 1)", "repeat(1, self.rep, 1)", "gqa_tile"),
    "Memory": ("softmax(s * self.scale)", "softmax(s * self.scale**2)", "scale_d"),
    "Notes": ("if True", "if name not in self.known", "cache_key"),
    "Shelf": ("q.tobytes())", "q.shape)", "cache_key"),
    "Interests": ("hidden.repeat_interleave(self.h, 0)", "hidden.repeat(self.h, 1)", "mask_fold_order"),
    "Fenster": ("(i - j < self.w)", "(i - j <= self.w)", "window_off_by_one"),
    "Secret": ("s = s.masked_fill(secret", "s.masked_fill(secret", "not_inplace"),
    "Buckets": ("mask = mask + bias", "mask += bias", "inplace"),
}


@pytest.mark.parametrize("name", [*WRONG, "Answers", "Skewed"])
def test_right(mistakes: Callable[[str], list[str]], name: str) -> None:
    assert mistakes(name) == []


@pytest.mark.parametrize("name", WRONG)
def test_wrong(session: Session, tmp_path: Path, name: str) -> None:
    right, wrong, mistake = WRONG[name]
    assert SOURCE.count(right) == 1
    file = tmp_path / f"wrong_{name.lower()}.py"
    file.write_text(SOURCE.replace(right, wrong))
    found = [f for f in examine(session, f"{file}:{name}").findings if f.kind in ("mistake", "unknown")]
    assert [f.id for f in found] == [mistake]


def test_what_was_told_stands_in_the_call(session: Session, file: Path) -> None:
    told = examine(session, f"{file}:Streams").convention["called with"]
    assert all(f"{name}: " in str(told) for name in "kvq")
    assert "sid" not in str(told)


def test_order_of_a_life() -> None:
    tree = ast.parse(SOURCE)
    methods = {
        c.name: Lives({f.name: f for f in c.body if isinstance(f, ast.FunctionDef)})
        for c in tree.body
        if isinstance(c, ast.ClassDef)
    }
    assert methods["Streams"].before("ask") == ["open", "add"]
    assert methods["Streams"].adds("add")
    assert methods["Streams"].told["ask"].names == {"sids": True}
    assert not methods["Streams"].asks("close")
    assert methods["Memory"].before("recall") == ["keep"]
    assert methods["Notes"].before("read") == ["write"]
    assert not methods["Notes"].adds("write")
    assert methods["Fenster"].before("__call__") == []
    assert methods["Shelf"].before("ask") == ["add"]


def test_arrays_are_watched_in_the_module_that_a_function_names() -> None:
    other = ModuleType("somewhere_else")
    other.np = np  # type: ignore[attr-defined]
    exec("def made(): return np.ones(3)", vars(other))
    sys.modules[other.__name__] = other

    def call(x: np.ndarray) -> np.ndarray:
        return np.asarray(x + other.made() * 2)  # type: ignore[attr-defined]

    call.__module__ = other.__name__
    try:
        _, operations = record_operations(call, np.arange(3.0))
    finally:
        del sys.modules[other.__name__]
    assert [operation.name for operation in operations][:2] == ["multiply", "add"]
