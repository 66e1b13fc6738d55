"""What is causal where an argument is given, and other forms that were not known."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.report import CallError

Mistakes = Callable[[str], list[str]]

GLIMPSE = '''
class Glimpse(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads, self.both, self.ask = heads, nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def prepare(self, nodes):
        """nodes [B, N, D]"""
        B, N, C = nodes.shape
        return [x.view(B, N, self.heads, -1).transpose(1, 2) for x in self.both(nodes).chunk(2, -1)]

    def step(self, prepared, first_last, visited):
        """first_last [B, 2D], visited [B, N], True = may not be chosen"""
        k, v = prepared
        q = self.ask(first_last).view(k.shape[0], self.heads, 1, -1)
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(visited[:, None, None], float("-inf"))
        return (s.softmax(-1) @ v).flatten(1)
'''
SOURCE = '''"""A codec.

Each frame sees earlier ones only.  `span` is the number of frames that a
frame attends to, the frame itself included, so that a ring needs no more.
A decoder gives h~ = tanh(W_c [c ; h]).
"""
import numpy as np
import torch
from torch import nn

def attend(q, k, v, first):
    s = q @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5
    if first is not None:
        s[..., np.arange(k.shape[1]) > (first + np.arange(q.shape[1]))[:, None]] = -np.inf
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v

def labelled(q, k, v, first=None):
    """q [B, n, D], k and v [B, m, D].  first: absolute position of q's first token for causal
    attention (keys start at position 0); None means every key may be seen."""
    return attend(q, k, v, first)

def conditional(q, k, v, start=None):
    """q [B, n, D], k and v [B, m, D]; causal if start is given, else all keys are seen."""
    return attend(q, k, v, start)

def promised(q, k, v, first=None):
    """Causal attention.  first: position of q's first token, 0 if None."""
    return attend(q, k, v, first)

def tour(decoder, nodes, visited, n):
    prep = decoder.prepare(nodes)
    return [decoder.step(prep, nodes[:, :2].flatten(1), visited) for _ in range(n)]

class Aligner:
    """e = v tanh(W s + U h)"""
    def __init__(self, W_a, U_a, v_a):
        self.W_a, self.U_a, self.v_a = W_a, U_a, v_a

    def precompute(self, H):
        return H @ self.U_a

    def __call__(self, s_prev, H, UH):
        """s_prev [B, n], H [B, S, 2n], UH [B, S, n'] -> context, weights."""
        e = np.tanh((s_prev @ self.W_a)[:, None] + UH) @ self.v_a
        a = np.exp(e - e.max(1, keepdims=True))
        a /= a.sum(1, keepdims=True)
        return np.einsum("bs,bsd->bd", a, H), a

class AlignerBare(Aligner):
    def __call__(self, s_prev, H, UH):
        """s_prev [B, n], H [B, S, 2n], UH [B, S, n'] -> context, weights."""
        e = ((s_prev @ self.W_a)[:, None] + UH) @ self.v_a
        a = np.exp(e - e.max(1, keepdims=True))
        a /= a.sum(1, keepdims=True)
        return np.einsum("bs,bsd->bd", a, H), a

def plainly(x, W, n_heads):
    """x [B, n, D]; W = dict(q, k, v, o) in torch's (out, in) order"""
    B, n, _ = x.shape
    fold = lambda m: (x @ m.T).reshape(B, n, n_heads, -1)
    s = np.einsum("bihd,bjhd->bhij", fold(W["q"]), fold(W["k"])) * (x.shape[-1] // n_heads) ** -0.5
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhij,bjhd->bihd", p / p.sum(-1, keepdims=True), fold(W["v"])).reshape(B, n, -1) @ W["o"].T

def new_cache(n_layer):
    return [{"k": None, "v": None} for _ in range(n_layer)]

def pieces(x, W, n_head, slot):
    """Causal self-attention of the new tokens x [n_new, n_embd] over cache + new tokens."""
    q, k, v = ((x @ W[n]).reshape(len(x), n_head, -1).transpose(1, 0, 2) for n in ("q", "k", "v"))
    if slot["k"] is not None:
        k, v = np.concatenate([slot["k"], k], 1), np.concatenate([slot["v"], v], 1)
    slot["k"], slot["v"] = k, v
    n, m = len(x), k.shape[1]
    s = np.where(np.tril(np.ones((n, m), bool), m - n), q @ k.transpose(0, 2, 1) / q.shape[-1] ** 0.5, -1e10)
    p = np.exp(s - s.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, -1) @ W["o"]

def drawn_weights(rng, words=5, e=24):
    return {"words": rng.normal(size=(words, e)), "w": rng.normal(size=(e, 3 * e)), "b": rng.normal(size=3 * e)}

def handed(x, c_attn, n_head, past=None):
    """Causal: x [n, e]; past is (k, v) of what came before, each [n_past, e]."""
    q, k, v = np.split(x @ c_attn["w"] + c_attn["b"], 3, axis=-1)
    if past is not None:
        k, v = np.concatenate([past[0], k]), np.concatenate([past[1], v])
    low = (1 - np.tri(len(q), len(k), len(k) - len(q))) * -1e10
    heads = []
    for one, two, three in zip(*(np.split(y, n_head, axis=-1) for y in (q, k, v))):
        s = one @ two.T / one.shape[-1] ** 0.5 + low
        p = np.exp(s - s.max(-1, keepdims=True))
        heads.append(p / p.sum(-1, keepdims=True) @ three)
    return np.hstack(heads), (k, v)

class Kept:
    def __init__(self):
        self.k = self.v = None

    def add(self, k, v):
        self.k = k if self.k is None else np.concatenate([self.k, k])
        self.v = v if self.v is None else np.concatenate([self.v, v])
        return self.k, self.v

class Tiled:
    def __init__(self, w, prefix, n_heads, n_kv_heads):
        self.w, self.p, self.h, self.g = w, prefix, n_heads, n_kv_heads
        self.d = w[prefix + "wq.weight"].shape[0] // n_heads

    def __call__(self, x, mem):
        """x [n, dim]; consecutive query heads share a key head"""
        n = len(x)
        q = (x @ self.w[self.p + "wq.weight"].T).reshape(n, self.h, self.d)
        k = (x @ self.w[self.p + "wk.weight"].T).reshape(n, self.g, self.d)
        v = (x @ self.w[self.p + "wv.weight"].T).reshape(n, self.g, self.d)
        k, v = mem.add(k, v)
        k, v = (np.tile(y, (1, self.h // self.g, 1)) for y in (k, v))
        s = np.einsum("nhd,mhd->hnm", q, k) / self.d**0.5
        s = np.where(np.arange(len(k)) > len(k) - n + np.arange(n)[:, None], -np.inf, s)
        p = np.exp(s - s.max(-1, keepdims=True))
        y = np.einsum("hnm,mhd->nhd", p / p.sum(-1, keepdims=True), v)
        return y.reshape(n, -1) @ self.w[self.p + "wo.weight"].T

def worker(q, k, v):
    """q [H, d], k, v [S, H, d] -> out [H, d], lse [H]"""
    s = np.einsum("hd,shd->hs", q, k) * 1.4426950408889634 / q.shape[-1] ** 0.5
    m = s.max(axis=1)
    p = np.exp2(s - m[:, None])
    z = p.sum(axis=1)
    return np.einsum("hs,shd->hd", p, v) / z[:, None], m + np.log2(z)

def merged(outs, lses):
    w = np.exp2(lses - lses.max(axis=0))
    return np.einsum("ch,chd->hd", w / w.sum(axis=0), outs)

def split(q, k, v, chunk=2):
    """Attention of one new token q [H, d] over the cache k, v [S, H, d]."""
    parts = [worker(q, k[a : a + chunk], v[a : a + chunk]) for a in range(0, len(k), chunk)]
    return merged(np.stack([o for o, _ in parts]), np.stack([l for _, l in parts]))

def together(q, k, v, n_split=4):
    """Attention of one new token q [H, d] over the cache k, v [S, H, d], S a multiple of n_split."""
    k, v = (x.reshape(n_split, -1, *x.shape[1:]) for x in (k, v))
    s = np.einsum("hd,cshd->chs", q, k) * 1.4426950408889634 / q.shape[-1] ** 0.5
    m = s.max(-1)
    p = np.exp2(s - m[..., None])
    z = p.sum(-1)
    return merged(np.einsum("chs,cshd->chd", p, v) / z[..., None], m + np.log2(z))

def decode(aligner, states, H):
    UH = aligner.precompute(H)
    return [aligner(s, H, UH)[0] for s in states]

class Global(nn.Module):
    """One step: h_t [B, H], memory [B, S, H]."""
    def __init__(self, hid):
        super().__init__()
        self.ask, self.both = nn.Linear(hid, hid, bias=False), nn.Linear(2 * hid, hid, bias=False)

    def bend(self, x):
        return torch.tanh(x)

    def forward(self, h_t, memory):
        a = torch.softmax(torch.bmm(self.ask(memory), h_t.unsqueeze(2)).squeeze(2), 1)
        c = torch.bmm(a.unsqueeze(1), memory).squeeze(1)
        return self.bend(self.both(torch.cat([c, h_t], 1))), a

class GlobalBare(Global):
    def bend(self, x):
        return x

class Molecule(nn.Module):
    """x [B, N, D], away [B, N, N] (-1 for atoms that are not connected), real [B, N], True for real atoms"""
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.map, self.near = heads, nn.Linear(dim, 3 * dim), nn.Embedding(21, heads)

    def both(self, one, two):
        return one.masked_fill(two, torch.finfo(one.dtype).min)

    def forward(self, x, away, real):
        B, N, D = x.shape
        q, k, v = self.map(x).view(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        s = q @ k.mT * (D // self.heads) ** -0.5 + self.near(away.clamp(0, 20)).permute(0, 3, 1, 2)
        none, low = torch.zeros_like(s[:, :1]), torch.finfo(s.dtype).min
        s = s + self.both(none.masked_fill((away < 0)[:, None], low), ~real[:, None, None, :])
        return (s.softmax(-1) @ v).transpose(1, 2).reshape(B, N, D)

class MoleculeTwice(Molecule):
    def both(self, one, two):
        return one + torch.zeros_like(one).masked_fill(two, torch.finfo(one.dtype).min)

class Turned(nn.Module):
    """The first half of each head is turned by the row of a patch, the second by its column."""
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.map = heads, nn.Linear(dim, 3 * dim)

    def forward(self, x, coords):
        B, N, D = x.shape
        q, k, v = self.map(x).reshape(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        rates = 0.1 ** (torch.arange(q.shape[-1] // 4) / 4)
        angle = torch.cat((coords[:, :1] * rates, coords[:, 1:2] * rates), -1)
        q, k = (torch.stack((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1).flatten(-2)
                for a, b in (y.unflatten(-1, (-1, 2)).unbind(-1) for y in (q, k)))
        y = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        return y.transpose(1, 2).reshape(B, N, D)

class Ring(nn.Module):
    def __init__(self, width, span):
        super().__init__()
        self.span, self.map = span, nn.Linear(width, 3 * width)

    def near(self, away):
        return (away >= 0) & (away < self.span)

    def forward(self, x):
        q, k, v = self.map(x).chunk(3, -1)
        at = torch.arange(x.shape[1])
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~self.near(at[:, None] - at), float("-inf"))
        return s.softmax(-1) @ v

class RingLonger(Ring):
    def near(self, away):
        return (away >= 0) & (away <= self.span)

class Neighbours(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.place = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.score = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x, points):
        """x [B, N, C], points [B, N, 3]"""
        away = self.place(points[:, :, None] - points[:, None])
        a = self.score(self.q(x)[:, :, None] - self.k(x)[:, None] + away).softmax(2)
        return torch.einsum("bnkc,bnkc->bnc", a, self.v(x)[:, None] + away)

class Distilled(Neighbours):
    def forward(self, x, points):
        """x [B, N, C], points [B, N, 3]: what one head says of each class beside the other's word."""
        return -(self.q(x).softmax(-1) * self.k(x).log_softmax(-1)).sum(-1)
'''

TURNED = SOURCE[SOURCE.index("class Turned") : SOURCE.index("class Ring(")]
SOURCE += TURNED.replace("coords[:, 1:2]", "coords[:, :1]").replace("Turned", "TurnedTwice")
SPLIT = SOURCE[SOURCE.index("def merged") : SOURCE.index("def decode")]
SOURCE += re.sub(r"\b(merged|split|together)\(", r"\1_e(", SPLIT).replace("np.exp2(lses", "np.exp(lses")
PIECES = SOURCE[SOURCE.index("def pieces") : SOURCE.index("class Kept")]
TILED = SOURCE[SOURCE.index("class Tiled") : SOURCE.index("def decode")]
SOURCE += PIECES.replace(", m - n)", ")").replace("pieces", "cut")
SOURCE += TILED.replace("np.tile(y, (1, self.h // self.g, 1))", "np.repeat(y, self.h // self.g, 1)").replace(
    "Tiled", "Repeated"
)
SOURCE += GLIMPSE + GLIMPSE.replace(" / q.shape[-1] ** 0.5", "").replace("Glimpse", "GlimpseBare")


@pytest.mark.parametrize(
    ("name", "wanted"), [("labelled", []), ("conditional", []), ("promised", ["causal_missing"])]
)  # fmt: skip
def test_what_is_said_of_an_argument_that_may_be_left_out_is_no_promise(
    mistakes: Mistakes, name: str, wanted: list[str]
) -> None:
    assert mistakes(name) == wanted


def test_weights_of_each_channel_mix_values_that_were_mapped(session: Session, file: Path) -> None:
    assert examine(session, f"{file}:Neighbours").ok
    with pytest.raises(CallError, match="no attention was found"):
        examine(session, f"{file}:Distilled")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("Glimpse", []), ("GlimpseBare", ["scale_missing"]), ("Aligner", []), ("AlignerBare", ["additive_no_tanh"])],
)
def test_a_method_is_given_what_another_one_returns(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted


def test_the_q_of_weights_is_a_weight(mistakes: Mistakes) -> None:
    assert mistakes("plainly") == []


@pytest.mark.parametrize(("name", "wanted"), [("Ring", []), ("RingLonger", ["window_off_by_one"])])
def test_what_a_window_counts_is_said_in_a_sentence(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("pieces", []), ("cut", ["causal_top_left"]), ("handed", []), ("Tiled", ["gqa_tile"]), ("Repeated", [])],
)
def test_what_a_module_keeps_is_continued_and_has_fewer_heads(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("Global", []), ("GlobalBare", ["luong_no_tanh_out"]), ("Molecule", []), ("MoleculeTwice", ["mask_finfo_sum"])],
)
def test_formulas_of_a_module_and_numbers_below_0_are_read(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted


@pytest.mark.parametrize(("name", "wanted"), [("Turned", []), ("TurnedTwice", ["unknown"])])
def test_rows_and_columns_are_both_read(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted


@pytest.mark.parametrize(
    ("name", "wanted"), [("split", []), ("split_e", ["lse_base2"]), ("together", []), ("together_e", ["lse_base2"])]
)  # fmt: skip
def test_blocks_are_merged_by_sums_of_one_base(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted
