"""What a module says of its arguments, words that pad, caches in dictionaries, scales that go with the width."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.calls.call import Guess, Lengths
from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.text.meaning import meaning

CODE = '''"""Attention of a story teller.

reach = how many tokens a query sees in total, itself included
(reach=1 gives the values back).
"""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def near(q, k, v, reach):
    """q, k and v (B, H, T, D)"""
    away = np.arange(q.shape[2])[:, None] - np.arange(k.shape[2])
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return softmax(np.where((away >= 0) & (away < reach), s, -np.inf)) @ v

def far(q, k, v, reach):
    """q, k and v (B, H, T, D)"""
    away = np.arange(q.shape[2])[:, None] - np.arange(k.shape[2])
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return softmax(np.where((away >= 0) & (away <= reach), s, -np.inf)) @ v

def tempered(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) * 0.7 / np.sqrt(q.shape[-1])) @ v

def constant(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) * 0.11) @ v

def powered(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 1.5) @ v

def halved(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) / (q.shape[-1] * 0.3)) @ v

class Rectified(nn.Module):
    def __init__(self, width, heads=8):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(3))

    def forward(self, x, memory):
        """x (N, T, C), memory (N, S, C)"""
        q, k, v = (torch.cat(torch.chunk(one, self.heads, 2)) for one in (self.q(x), self.k(memory), self.v(memory)))
        y = (q @ k.mT / k.shape[-1] ** 0.5).softmax(-1) @ v
        return torch.cat(torch.chunk(y, self.heads), 2)

class Titles(nn.Module):
    """Words of 0 are padding."""

    def __init__(self, words=30, width=16):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def keep(self, ids):
        return ids != 0

    def forward(self, titles):
        """titles (B, N, L)"""
        ids = titles.flatten(0, 1)
        x = self.words(ids)
        keep = self.keep(ids)[:, None].expand(-1, ids.shape[1], -1)
        return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), attn_mask=keep)

class TitlesTurned(Titles):
    def keep(self, ids):
        return ids == 0

class Cast(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def seen(self, low):
        return low == 0

    def forward(self, x, memory, mask=None):
        """x (B, T, C), memory (B, S, C), mask (B, S): 1 = may be seen"""
        if mask is not None:
            mask = self.seen((1 - mask.to(x.dtype)) * -10000.0)[:, None]
        return F.scaled_dot_product_attention(self.q(x), self.k(memory), self.v(memory), attn_mask=mask)

class CastTurned(Cast):
    def seen(self, low):
        return low.to(torch.bool)

class Told(nn.Module):
    def __init__(self, words=30, width=16):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.qkv = nn.Linear(width, 3 * width)

    def start(self, past):
        return 0 if past is None else past[0].shape[1]

    def forward(self, ids, past=None, use_cache=False):
        x = self.words(ids)
        q, k, v = self.qkv(x).chunk(3, -1)
        at = torch.arange(ids.shape[1])[:, None] + self.start(past)
        turn = at * 10000.0 ** (-torch.arange(q.shape[-1] // 2) / (q.shape[-1] // 2))
        half = lambda y: torch.cat([-y[..., y.shape[-1] // 2 :], y[..., : y.shape[-1] // 2]], -1)
        q, k = (y * turn.cos().repeat(1, 2) + half(y) * turn.sin().repeat(1, 2) for y in (q, k))
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        n, m = q.shape[1], k.shape[1]
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(torch.ones(n, m).triu(m - n + 1).bool(), float("-inf"))
        return {"states": s.softmax(-1) @ v, "past": (k, v) if use_cache else None}

class Forgetful(Told):
    def start(self, past):
        return 0
'''


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("said") / "tales.py"
    path.write_text(CODE)
    return path


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("near", set()),
        ("far", {"window_off_by_one"}),
        ("tempered", set()),
        ("constant", set()),
        ("powered", {"unknown"}),
        ("halved", {"unknown"}),
        ("Rectified", set()),
        ("Titles", set()),
        ("TitlesTurned", {"mask_inverted"}),
        ("Cast", set()),
        ("CastTurned", {"mask_float_as_bool"}),
        ("Told", set()),
        ("Forgetful", {"rope_offset"}),
    ],
)
def test_what_is_said_and_what_is_done(name: str, wanted: set[str], target: Path, session: Session) -> None:
    report = examine(session, f"{target}:{name}")
    assert {f.id for f in report.findings if f.kind in ("mistake", "unknown")} == wanted


def test_a_call_has_so_many_numbers() -> None:
    guess = Guess(((("x",), "BTW"), (("w",), "WW"), (("n",), "number of heads")), Lengths(2, 3, 5, 7, 4, 12))
    assert guess.size == 2 * 5 * 12 + 12 * 12


@pytest.mark.parametrize(
    ("line", "means"),
    [
        ("padding (true = no token)", "drop"),
        ("true where there is no word", "drop"),
        ("true at positions without a key", "drop"),
        ("1.0 = empty slot, 0.0 = passage", "drop"),
        ("true for real tokens, no padding", "keep"),
        ("1.0 = word, 0.0 = no word", "keep"),
        ("0.0 where padded", "keep"),
        ("true where the frame was lost", "drop"),
        ("true = not suspended", "keep"),
        ("true where it was removed", "drop"),
        ("true = padding and not to be read", "drop"),
        ("true = listed and not suspended", "keep"),
        ("true where the frame was taken at night", None),
        ("the version is 1.0", None),
    ],
)
def test_what_a_line_says_of_a_mask(line: str, means: str | None) -> None:
    assert meaning(line, booleans=False) == means
