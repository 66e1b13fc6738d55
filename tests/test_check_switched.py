"""What a flag of the constructor switches on, weights of fewer heads, shared keys, and the lines of what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from overt.check.checking import examine
from overt.check.process import watching
from overt.check.process.session import Here, Session
from overt.check.report import CheckerError

SOURCE = '''
"""`query_key_value`, as fused QKV, has 3 * D output rows, head by head: for each head its q rows, k rows, v rows."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def angles(n, dim):
    return torch.arange(n)[:, None] * 1e4 ** (-torch.arange(0, dim, 2) / dim)[None]


def turn(x, at):
    c, s = at.cos().to(x), at.sin().to(x)
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, a * s + b * c], -1)


class Scribe(nn.Module):
    """Causal, rotary positions, one key head for all.  x [B, L, width].

    With stepwise=True x are the next tokens, and the result equals that of all tokens at once.
    """

    begins = True

    def __init__(self, width=48, heads=4, stepwise=False):
        super().__init__()
        self.heads, self.stepwise, self.past = heads, stepwise, None
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * width // heads, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x):
        B, L, width = x.shape
        q = self.q(x).view(B, L, self.heads, -1).transpose(1, 2)
        k, v = self.kv(x).chunk(2, -1)
        if self.stepwise:
            if self.past is not None:
                k, v = torch.cat([self.past[0], k], 1), torch.cat([self.past[1], v], 1)
            self.past = k, v
        S = k.shape[1]
        at = angles(S, k.shape[-1])
        q = turn(q, at[S - L:] if self.begins else at[:L])
        s = torch.einsum("bhld,bsd->bhls", q, turn(k, at)) / k.shape[-1] ** 0.5
        s = s.masked_fill(torch.ones(L, S, dtype=torch.bool).triu(S - L + 1), float("-inf"))
        return self.o(torch.einsum("bhls,bsd->blhd", s.softmax(-1), v).flatten(2))


class Restarting(Scribe):
    """Causal, rotary positions, one key head for all.  x [B, L, width].

    With stepwise=True x are the next tokens, and the result equals that of all tokens at once.
    """

    begins = False


class Loaded:
    """Query heads 0 .. H/G - 1 belong to key head 0, the next H/G to key head 1, and so on.  Call with [L, dim]."""

    spread = staticmethod(lambda x, n: np.repeat(x, n, 0))

    def __init__(self, arrays, heads, kv_heads):
        self.wq, self.wk, self.wv, self.wo = (arrays[f"{n}_proj.weight"].T for n in ("q", "k", "v", "o"))
        self.H, self.G, self.d = heads, kv_heads, self.wq.shape[1] // heads

    def __call__(self, x):
        q, k, v = ((x @ w).reshape(len(x), n, self.d).transpose(1, 0, 2)
                   for w, n in ((self.wq, self.H), (self.wk, self.G), (self.wv, self.G)))
        k, v = self.spread(k, self.H // self.G), self.spread(v, self.H // self.G)
        s = q @ k.transpose(0, 2, 1) / np.sqrt(self.d)
        s = np.exp(s - s.max(-1, keepdims=True))
        return (s / s.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(x), -1) @ self.wo


class Tiled(Loaded):
    """Query heads 0 .. H/G - 1 belong to key head 0, the next H/G to key head 1, and so on.  Call with [L, dim]."""

    spread = staticmethod(lambda x, n: np.tile(x, (n, 1, 1)))


class Bloom(nn.Module):
    """ALiBi: a key is penalised by how far back it lies.  Causal.  x [B, T, D]"""

    def __init__(self, hidden=48, n_head=4):
        super().__init__()
        self.n_head, self.head_dim = n_head, hidden // n_head
        self.query_key_value, self.dense = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        slopes = 2 ** (-8 * torch.arange(1, n_head + 1) / n_head)
        self.register_buffer("slopes", slopes, persistent=False)

    def split(self, fused):
        return fused.unflatten(-1, (self.n_head, 3, self.head_dim)).unbind(3)

    def bias(self, t):
        back = torch.arange(t)[None] - torch.arange(t)[:, None]
        return self.slopes[:, None, None] * back

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.transpose(1, 2).flatten(0, 1) for z in self.split(self.query_key_value(x)))
        s = torch.baddbmm(
            self.bias(t).to(x).repeat(b, 1, 1),
            q,
            k.transpose(1, 2),
            alpha=self.head_dim**-0.5,
        )
        s = s.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        return self.dense((s.softmax(-1) @ v).view(b, -1, t, self.head_dim).transpose(1, 2).reshape(b, t, c))


class Forward(Bloom):
    """ALiBi: a key is penalised by how far back it lies.  Causal.  x [B, T, D]"""

    def bias(self, t):
        back = torch.arange(t)[:, None] - torch.arange(t)[None]
        return self.slopes[:, None, None] * back


class Thirds(Bloom):
    """ALiBi: a key is penalised by how far back it lies.  Causal.  x [B, T, D]"""

    def split(self, query_key_value):
        return query_key_value.unflatten(-1, (3, self.n_head, self.head_dim)).unbind(2)


class Clue(nn.Module):
    """Causal self-attention.  x [B, T, D]; past: k and v of the tokens before, or None.  Returns y, (k, v)."""

    def __init__(self, dim=48, heads=4):
        super().__init__()
        self.heads, self.qkv, self.o = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, past=None):
        B, T, C = x.shape
        q, k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        y = F.scaled_dot_product_attention(
            q, k, v,
            dropout_p=0.0,
            is_causal=T > 1,
        )
        return self.o(y.transpose(1, 2).reshape(B, T, C)), (k, v)


class Normed(nn.GroupNorm):
    def forward(self, x):
        return super().forward(x.float()).type(x.dtype)


class Pixels(nn.Module):
    def __init__(self, channels, heads=4):
        super().__init__()
        self.heads, self.norm = heads, Normed(8, channels)
        self.qkv, self.proj = nn.Conv1d(channels, 3 * channels, 1), nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        b, c, *hw = x.shape
        flat = x.reshape(b, c, -1)
        q, k, v = self.qkv(self.norm(flat)).view(b, 3, self.heads, -1, flat.shape[-1]).unbind(1)
        w = (q.transpose(-1, -2) @ k / q.shape[2] ** 0.5).softmax(-1)
        return (flat + self.proj((v @ w.transpose(-1, -2)).reshape(b, c, -1))).reshape(b, c, *hw)


class Shared(nn.Module):
    """s [B, L, C]; bias [B, heads, L, L], added to the scores; keep [B, L] bool, True = is attended."""

    def __init__(self, c=48, heads=4):
        super().__init__()
        self.heads, self.qkv, self.gate = heads, nn.Linear(c, 3 * c), nn.Linear(c, c)
        nn.init.ones_(self.gate.bias)

    def forward(self, s, bias, keep=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(s).chunk(3, -1))
        if keep is not None:
            bias = bias.masked_fill_(~keep[:, None, None, :], float("-inf"))
        a = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias).softmax(-1)
        return torch.sigmoid(self.gate(s)) * (a @ v).transpose(1, 2).flatten(2)


def best(q, k, v, keep=16):
    """q (B, T, D), k (B, S, D), v (B, S, D): each query attends to its best keys."""
    top, at = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).topk(min(keep, k.shape[1]), -1)
    return torch.einsum("btk,btkd->btd", top.softmax(-1), v[torch.arange(len(q))[:, None, None], at])


def ascending(q, k, v, keep=16):
    """q (B, T, D), k (B, S, D), v (B, S, D): each query attends to its best keys."""
    top, at = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).topk(min(keep, k.shape[1]), -1)
    at = at.sort(-1)[0]
    return torch.einsum("btk,btkd->btd", top.softmax(-1), v[torch.arange(len(q))[:, None, None], at])


class Beams(nn.Module):
    """Causal, keeps its keys.  x [beams, T, D]; origin [beams] long: whose keys each beam goes on with, or None."""

    both = True

    def __init__(self, dim=48, heads=4):
        super().__init__()
        self.heads, self.inner, self.outer = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.k = self.v = None

    def forward(self, x, origin=None):
        n, t, dim = x.shape
        q, k, v = (z.view(n, t, self.heads, -1).transpose(1, 2) for z in self.inner(x).chunk(3, -1))
        if self.k is not None:
            if origin is not None:
                self.k = self.k[origin]
                self.v = self.v[origin] if self.both else self.v
            k, v = torch.cat((self.k, k), 2), torch.cat((self.v, v), 2)
        self.k, self.v = k, v
        s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        s = s.masked_fill(torch.ones(t, k.shape[2], dtype=torch.bool).triu(k.shape[2] - t + 1), float("-inf"))
        return self.outer((s.softmax(-1) @ v).transpose(1, 2).reshape(n, t, dim))


class Parted(Beams):
    """Causal, keeps its keys.  x [beams, T, D]; origin [beams] long: whose keys each beam goes on with, or None."""

    both = False


def sunk(q, k, v, sinks, block=4):
    """q (B, T, H, D), k (B, S, H, D), v (B, S, H, D), sinks (H,): a logit without a value."""
    B, T, H, D = q.shape
    top = torch.broadcast_to(sinks[None, :, None], (B, H, T))
    total, acc = torch.ones(B, H, T).to(q), torch.zeros(B, H, T, D).to(q)
    for start in range(0, k.shape[1], block):
        s = torch.einsum("bthd,bshd->bhts", q, k[:, start:start + block]) / D ** 0.5
        new = torch.maximum(top, s.amax(-1))
        old, e = torch.exp(top - new), torch.exp(s - new[..., None])
        total = total * old + e.sum(-1)
        acc = acc * old[..., None] + torch.einsum("bhts,bshd->bhtd", e, v[:, start:start + block])
        top = new
    return (acc / total[..., None]).transpose(1, 2)


class Years(nn.Module):
    """x [B, T, D]"""

    def __init__(self, wide=30, several=3):
        super().__init__()
        self.several = several
        self.q, self.k, self.v = (nn.Linear(wide, wide) for _ in range(3))

    def by(self, k):
        return k.size(3)

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.several, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return ((q @ k.transpose(2, 3) / self.by(k) ** 0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)


class Lengths(Years):
    """x [B, T, D]"""

    def by(self, k):
        return k.size(2)


class Drawn:
    """x [B, T, D], isi [B, T] of 1 and 0 (1 = is filled)"""

    hides = True

    def __init__(self, wide, heads, acak):
        self.heads = heads
        self.q, self.k, self.v = (acak.normal(size=(wide, wide)) * wide**-0.5 for _ in range(3))

    def __call__(self, x, isi):
        b, n, dim = x.shape
        q, k, v = ((x @ w).reshape(b, n, self.heads, -1).transpose(0, 2, 1, 3) for w in (self.q, self.k, self.v))
        s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
        s = np.where(isi[:, None, None, :] > 0, s, -np.inf) if self.hides else s * isi[:, None, None, :]
        e = np.exp(s - s.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(b, n, dim)


class Weak(Drawn):
    """x [B, T, D], isi [B, T] of 1 and 0 (1 = is filled)"""

    hides = False


class Pairs(nn.Module):
    """x [B,N,D], signs [B,N] in {0,1}, reach [B,H,N,N] -> [B,N,D]"""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.parity = heads, nn.Linear(dim, 3 * dim), nn.Parameter(torch.randn(heads, 3))

    def forward(self, x, signs, reach):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, self.heads, -1).transpose(1, 3).unbind(2)
        pair = signs[:, :, None] + signs[:, None, :]
        reach += self.parity[:, pair].transpose(0, 1)
        return ((q @ k.transpose(2, 3) * q.shape[-1] ** -0.5 + reach).softmax(-1) @ v).transpose(1, 2).flatten(2)


class Seconds(nn.Module):
    """x [B, D], one second, and memory [B, S, D], those before; heads share their keys."""

    def __init__(self, D=32, heads=4, groups=2):
        super().__init__()
        self.groups, self.d = groups, D // heads
        self.q, self.kv, self.o = nn.Linear(D, D), nn.Linear(D, 2 * groups * self.d), nn.Linear(D, D)

    def forward(self, x, memory):
        k, v = self.kv(memory).view(*memory.shape[:2], 2, self.groups, self.d).permute(2, 0, 3, 1, 4)
        q = self.q(x).view(len(x), self.groups, -1, self.d)
        w = (torch.einsum("bgrd,bgsd->bgrs", q, k) * self.d ** -0.5).softmax(-1)
        return self.o(torch.einsum("bgrs,bgsd->bgrd", w, v).reshape(len(x), -1))


class Hands(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h, self.q, self.kv = heads, nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)

    def forward(self, x, visible):
        B, N, _ = x.shape
        q = self.q(x).view(B, N, self.h, -1)
        k, v = self.kv(x).view(B, N, 2, self.h, q.shape[-1]).unbind(2)
        s = torch.einsum("bqhd,bkhd->bhqk", q * q.shape[-1] ** -0.5, k)
        s = s.masked_fill(~visible[:, None, None, :], -torch.inf)
        return torch.einsum("bhqk,bkhd->bqhd", s.softmax(3), v).reshape(B, N, -1)


def barren(q, k, v, rock):
    """q (B, T, D), k (B, S, D), v (B, S, D); rock (B, S) True for bare rock, which no query may collect."""
    s = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).masked_fill(rock[:, None], float("-inf"))
    return s.softmax(-1) @ v
'''


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("Scribe", []),
        ("Restarting", ["rope_offset"]),
        ("Loaded", []),
        ("Tiled", ["gqa_tile"]),
        ("Bloom", []),
        ("Forward", ["alibi_sign"]),
        ("Thirds", ["qkv_order"]),
        ("Clue", ["causal_top_left"]),
        ("Pixels", []),
        ("Shared", ["inplace"]),
        ("best", []),
        ("ascending", ["unknown"]),
        ("Beams", []),
        ("Parted", ["unknown"]),
        ("sunk", []),
        ("Years", []),
        ("Lengths", ["scale_seqlen"]),
        ("Drawn", []),
        ("Weak", ["mask_times_scores"]),
        ("Pairs", ["inplace"]),
        ("Seconds", []),
        ("Hands", []),
        ("barren", []),
    ],
)
def test_mistakes_and_no_others(mistakes: Callable[[str], list[str]], name: str, wrong: list[str]) -> None:
    assert mistakes(name) == wrong


@pytest.mark.parametrize(
    ("name", "mistake", "text"),
    [
        ("Tiled", "gqa_tile", "np.tile("),
        ("Forward", "alibi_sign", "* back"),
        ("Clue", "causal_top_left", "is_causal="),
        ("Shared", "inplace", "masked_fill_("),
        ("Pairs", "inplace", "reach +="),
        ("Parted", "unknown", "self.k[origin]"),
    ],
)
def test_lines(session: Session, file: Path, name: str, mistake: str, text: str) -> None:
    told = {one.id: one.where for one in examine(session, f"{file}:{name}").findings}[mistake]
    assert told is not None
    assert text in told["text"]


@pytest.mark.parametrize(
    ("name", "step"), [("Scribe", "rotation"), ("Scribe", "cache"), ("Loaded", "groups"), ("best", "mixing")]
)
def test_what_was_tested(session: Session, file: Path, name: str, step: str) -> None:
    told = examine(session, f"{file}:{name}").ledger
    assert [one.outcome for one in told if one.step == step] == ["held"]


def test_a_failure_of_the_judge_is_none_of_the_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    def attention(q, k, v):  # type: ignore[no-untyped-def]
        """q (B, T, D), k (B, S, D), v (B, S, D)"""
        s = q @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v

    def judge(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("of the judge")

    monkeypatch.setattr(watching, "judge", judge)
    with Here(attention) as session, pytest.raises(CheckerError, match="ZeroDivisionError: of the judge"):
        examine(session, None, name="attention")
