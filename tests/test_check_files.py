"""What a whole file says, and how its parts are called: segments, pairs, keys of weights, images, masks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Mistakes = Callable[[str], list[str]]

SOURCE = '''"""Masks are additive: 0.0 at words, -inf at padding."""

import math
from typing import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

def segment_softmax(logits, seg, n):
    """over the edges with one target"""
    top = np.full((n, *logits.shape[1:]), -np.inf)
    np.maximum.at(top, seg, logits)
    powers = np.exp(logits - top[seg])
    total = np.zeros_like(top)
    np.add.at(total, seg, powers)
    return powers / total[seg]

def half_shifted(logits, seg, n):
    """over the edges with one target"""
    top = np.full((n, *logits.shape[1:]), -np.inf)
    np.maximum.at(top, seg, logits)
    total = np.zeros_like(top)
    np.add.at(total, seg, np.exp(logits))
    return np.exp(logits - top[seg]) / total[seg]

def unshifted(logits, seg, n):
    total = torch.zeros(n, *logits.shape[1:], dtype=logits.dtype).index_add(0, seg, logits.exp())
    return logits.exp() / total[seg]

def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def remembered(x, kv, heads):
    """x [B, T, C]; scaled by d**-0.25 on both sides"""
    k, v = kv
    q = x.reshape(*x.shape[:2], heads, -1)
    each = q.shape[-1] ** -0.25
    s = np.einsum("bthd,bfhd->bhtf", q * each, k * each)
    return np.einsum("bhtf,bfhd->bthd", softmax(s), v).reshape(x.shape)

def at_a_layer(x, w, layer):
    """x [T, C]"""
    p = f"layers.{layer}.attention."
    q, k, v = (x @ w[p + name] for name in ("wq", "wk", "wv"))
    return softmax(q @ k.T / math.sqrt(q.shape[-1])) @ v @ w[p + "wo"]

class Maps(nn.Module):
    """The weights of each head over the pixels of a map."""
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.q, self.k = heads, nn.Linear(width, width), nn.Conv2d(width, width, 1)

    def forward(self, queries, features):
        H, W = features.shape[-2:]
        q = self.q(queries).unflatten(-1, (self.heads, -1))
        k = self.k(features).unflatten(1, (self.heads, -1)).flatten(-2)
        return (torch.einsum("bqnc,bncs->bqns", q, k) / math.sqrt(q.shape[-1])).softmax(-1).unflatten(-1, (H, W))

class Added(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, attn_mask):
        """x (B, L, C), attn_mask (B, 1, L)"""
        q, k, v = self.qkv(x).chunk(3, -1)
        return (q @ k.mT * q.shape[-1] ** -0.5 + attn_mask).softmax(-1) @ v

class Cast(Added):
    def forward(self, x, attn_mask):
        """x (B, L, C), attn_mask (B, 1, L)"""
        q, k, v = self.qkv(x).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask.bool().expand(-1, x.shape[1], -1))

def in_buckets(q, v, buckets):
    """q (T, D), v (T, C), buckets (T,) of integers.  No later token is seen."""
    k = q / np.linalg.norm(q, axis=-1, keepdims=True)
    at = np.arange(len(q))
    s = q @ k.T / math.sqrt(q.shape[-1])
    s = np.where((at[:, None] < at) | (buckets[:, None] != buckets), -np.inf, s)
    return softmax(np.where(at[:, None] == at, -1e5, s)) @ v

def piece(q, k, v, many):
    s = torch.einsum("bhd,bshd->bhs", q, k) * q.shape[-1] ** -0.5 / math.log(2)
    gone = torch.arange(k.shape[1]) >= many[:, None]
    s = s.masked_fill(gone[:, None], -math.inf)
    top = s.amax(-1, keepdim=True).clamp_min(-1e30)
    e = torch.exp2(s - top)
    total = e.sum(-1, keepdim=True)
    out = torch.einsum("bhs,bshd->bhd", e, v) / total.clamp_min(1e-30)
    return out, (top + torch.log2(total))[..., 0]  # to the base 2

def in_pieces(q, k, v, lengths, power):
    step, outs, sums = 2, [], []
    for at in range(0, k.shape[1], step):
        many = (lengths - at).clamp(0, step)
        out, lse = piece(q, k[:, at : at + step], v[:, at : at + step], many)
        outs.append(out)
        sums.append(lse)
    outs, sums = torch.stack(outs), torch.stack(sums)
    w = power(sums - sums.amax(0))
    return (outs * w[..., None]).sum(0) / w.sum(0)[..., None]

def of_base_2(q, k, v, lengths):
    """q [B, H, d], k and v [B, T, H, d], lengths [B]"""
    return in_pieces(q, k, v, lengths, torch.exp2)

def of_base_e(q, k, v, lengths):
    """q [B, H, d], k and v [B, T, H, d], lengths [B]"""
    return in_pieces(q, k, v, lengths, torch.exp)

def attends(x, qkv, past=None):
    x = x @ qkv["w"] + qkv["b"]
    q, k, v = np.split(x, 3, -1)
    k, v = (k, v) if past is None else (np.vstack([past[0], k]), np.vstack([past[1], v]))
    i, j = np.arange(len(q))[:, None] + len(k) - len(q), np.arange(len(k))
    return softmax(np.where(j <= i, q @ k.T / math.sqrt(q.shape[-1]), -1e10)) @ v, (k, v)

def one_of_many(x, qkv, past=None):
    """x [T, C].  Causal; with the keys and values of tokens before, x holds those that come after them."""
    return attends(x, qkv, past)

def wrapped(cls):
    made = cls.__init__

    def __init__(self, *args, **kwargs):
        made(self, *args, **kwargs)
        self.number = 1

    cls.__init__ = __init__
    return cls

@wrapped
class TimeFirst(nn.Module):
    """Input: Time x Batch x Channel; key_padding_mask (batch, src_len), True for padding, which is left out."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.heads, self.qkv = num_heads, nn.Linear(embed_dim, 3 * embed_dim)

    def masks(self, pad):
        return pad.repeat_interleave(self.heads, 0)

    def forward(self, x, key_padding_mask=None):
        T, B, C = x.shape
        q, k, v = (t.reshape(T, B * self.heads, -1).transpose(0, 1) for t in self.qkv(x).chunk(3, -1))
        s = torch.bmm(q, k.mT) * q.shape[-1] ** -0.5
        if key_padding_mask is not None:
            s = s.masked_fill(self.masks(key_padding_mask)[:, None], -1e9)
        return torch.bmm(s.softmax(-1), v).transpose(0, 1).reshape(T, B, C)

class TimeFirstFolded(TimeFirst):
    def masks(self, pad):
        return pad.repeat(self.heads, 1)

class Latent(nn.Module):
    """What a prefill and single steps give is what one pass gives."""

    class Cache:
        def __init__(self):
            self.k = self.v = None

        def __len__(self):
            return 0 if self.k is None else self.k.shape[1]

        def update(self, k, v):
            if self.k is not None:
                k, v = torch.cat([self.k, k], 1), torch.cat([self.v, v], 1)
            self.k, self.v = k, v
            return k, v

    late = True

    def __init__(self, dim=16):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)

    def turned(self, x, at):
        angle = at[:, None] * 10000.0 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
        one, two = x[..., ::2], x[..., 1::2]
        pairs = one * angle.cos() - two * angle.sin(), one * angle.sin() + two * angle.cos()
        return torch.stack(pairs, -1).flatten(-2)

    def forward(self, x, cache: "Latent.Cache" = None):
        T = x.shape[1]
        start = 0 if cache is None else len(cache)
        q, k, v = self.qkv(x).chunk(3, -1)
        q = self.turned(q, torch.arange(T) + start * self.late)  # turned
        k = self.turned(k, torch.arange(T) + start)
        k, v = (k, v) if cache is None else cache.update(k, v)
        s = q @ k.mT * q.shape[-1] ** -0.5
        later = torch.ones(T, k.shape[1], dtype=torch.bool).triu(k.shape[1] - T + 1)
        return s.masked_fill(later, -math.inf).softmax(-1) @ v

class LatentFromZero(Latent):
    late = False

class Graphs(nn.Module):
    """x: [G, N, C]; key_padding_mask: [G, N] bool, True for nodes that only fill up, to which none may attend"""
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(width, 3 * width)

    def hidden(self, s, mask):
        return s.masked_fill(mask[:, None, None], -1e9)

    def forward(self, x, key_padding_mask=None):
        G, N, C = x.shape
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        s = q @ k.mT * q.shape[-1] ** -0.5
        s = s if key_padding_mask is None else self.hidden(s, key_padding_mask)
        return (s.softmax(-1) @ v).transpose(1, 2).reshape(G, N, C)

class GraphsAdded(Graphs):
    def hidden(self, s, mask):
        return s + mask[:, None, None]

class Points(nn.Module):
    def __init__(self, planes):
        super().__init__()
        self.qkv, self.place = nn.Linear(planes, 3 * planes), nn.Linear(3, planes)

    def forward(self, px):
        p, x = px  # [B, N, 3], [B, N, C]
        q, k, v = self.qkv(x).chunk(3, -1)
        w = (q[:, :, None] - k[:, None] + self.place(p[:, :, None] - p[:, None])).softmax(-2)
        return (w * v[:, None]).sum(2)

def forward_of(query, key, params):
    """query: (N, T, D); key: (N, S, D); params: dict with Wq, Wk, Wv (weights are (D, D), x @ W)"""
    q, k, v = query @ params["Wq"], key @ params["Wk"], key @ params["Wv"]
    w = softmax(q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1]))
    return w @ v, (w, v)

def backward_of(d, cache):
    """Gradients of Wq, Wk, Wv, and more."""
    w, v = cache
    return {"Wq": d, "Wk": d, "Wv": w.swapaxes(1, 2) @ d}

class TwoWays(nn.Module):
    """Scores of content, of queries and places, and of keys and places: A[i, j] += K[j] Q_delta(j, i)"""
    def __init__(self, width, span=16):
        super().__init__()
        self.qkv, self.span = nn.Linear(width, 3 * width), span
        self.keys, self.queries = nn.Linear(width, width), nn.Linear(width, width)

    def of_keys(self, s):
        return s.mT

    def forward(self, x, table):
        """x [B, L, C]; table [2 * span, C]"""
        L, (q, k, v) = x.shape[1], self.qkv(x).chunk(3, -1)
        at = (torch.arange(L)[:, None] - torch.arange(L) + self.span).clamp(0, 2 * self.span - 1).expand(len(x), L, L)
        more = torch.gather(q @ self.keys(table).mT, -1, at)
        more = more + self.of_keys(torch.gather(k @ self.queries(table).mT, -1, at))
        return ((q @ k.mT + more) * (3 * q.shape[-1]) ** -0.5).softmax(-1) @ v

class TwoWaysUnturned(TwoWays):
    def of_keys(self, s):
        return s

def unscaled(x, y, p):
    """x [T, D], y [S, D], p: q, k, v [D, D].  This does not divide the logits by sqrt(d): q was made so."""
    return softmax((x @ p["q"]) @ (y @ p["k"]).T) @ (y @ p["v"])

class Logits(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        return self.both(*self.qkv(x).chunk(3, -1))

    def both(self, q, k, v):
        """Second result: the logits, which somebody else normalises."""
        s = q @ k.mT * q.shape[-1] ** -0.5
        return s.softmax(-1) @ v, s.detach()

class Bare(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        """The output and the attention."""
        q, k, v = self.qkv(x).chunk(3, -1)
        s = q @ k.mT * q.shape[-1] ** -0.5
        return s.softmax(-1) @ v, s.detach()

class Sided(nn.Module):
    """Windows of three sides."""
    window: Sequence[int]
    dim: int

    def __init__(self, window, dim):
        super().__init__()
        self.window, self.qkv = window, nn.Linear(dim, 3 * dim)
        a, b, c = self.window
        self.bias = nn.Parameter(torch.randn(a * b * c, a * b * c))

    def forward(self, x):
        """x [windows, N, C]"""
        q, k, v = self.qkv(x).chunk(3, -1)
        return (q @ k.mT * q.shape[-1] ** -0.5 + self.bias).softmax(-1) @ v

class Pool:
    def __init__(self, blocks, block_size, n_kv_heads, head_dim):
        self.block_size, self.free, self.asked = block_size, list(range(blocks)), {}
        self.k = torch.zeros(blocks, block_size, n_kv_heads, head_dim)
        self.v = torch.zeros_like(self.k)

    def request(self, rid):
        return self.asked.setdefault(rid, [[], 0])

    def append(self, rid, k, v):
        """k, v [n_new, n_kv_heads, head_dim]"""
        mine = self.request(rid)
        for one, other in zip(k, v):
            if mine[1] % self.block_size == 0:
                mine[0].append(self.free.pop())
            at = mine[0][-1], mine[1] % self.block_size
            self.k[at], self.v[at] = one, other
            mine[1] += 1

def paged(q, pool, rids):
    """q [n_req, n_heads, head_dim], keys and values of each request were appended already"""
    found = []
    for row, rid in enumerate(rids):
        blocks, length = pool.request(rid)
        k, v = (x[blocks].flatten(0, 1)[:length] for x in (pool.k, pool.v))
        s = torch.einsum("hd,nhd->hn", q[row], k) * q.shape[-1] ** -0.5
        found.append(torch.einsum("hn,nhd->hd", s.softmax(-1), v))
    return torch.stack(found)

def layer_of(d_model, heads, max_len, seed=0):
    r = np.random.default_rng(seed)
    return {"wq": r.normal(size=(d_model, d_model)), "rel": r.normal(size=(heads, max_len, d_model // heads))}

def skewed(p, x, heads):
    """x [B, L, D].  Causal; the last row of rel is the distance 0."""
    B, L, D = x.shape
    q = (x @ p["wq"]).reshape(B, L, heads, -1).transpose(0, 2, 1, 3)
    e = np.einsum("bhld,hrd->bhlr", q, p["rel"][:, p["rel"].shape[1] - L :])
    e = np.pad(e, ((0, 0), (0, 0), (0, 0), (1, 0))).reshape(B, heads, L + 1, L)[:, :, 1:]
    s = (q @ x.reshape(B, L, heads, -1).transpose(0, 2, 3, 1) + e) / math.sqrt(q.shape[-1])
    w = softmax(np.where(np.triu(np.ones((L, L), bool), 1), -1e9, s))
    return (w @ x.reshape(B, L, heads, -1).transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3).reshape(B, L, D)

class Axis(nn.Module):
    """Along the second last axis of x."""
    def __init__(self, dim):
        super().__init__()
        self.qkv, self.d = nn.Linear(dim, 3 * dim), dim

    def scale(self, q):
        return self.d**-0.5

    def forward(self, x, near=None):
        q, k, v = self.qkv(x).chunk(3, -1)
        s = q @ k.mT * self.scale(q)
        if near is not None:
            # near[i, j] True: i sees j
            s = s.masked_fill(~near, -1e9)
        return s.softmax(-1) @ v

class AxisByLength(Axis):
    def scale(self, q):
        return q.shape[-2] ** -0.5

def in_a_cache(p, x, cache, heads):
    """x [T, dim]; cache (k, v) each [S, Hkv, D]; query heads h and h + 1 share a key head"""
    T = x.shape[0]
    q = (x @ p["q"]).reshape(T, heads, -1)
    k, v = cache[0], cache[1]
    k, v = (np.repeat(t, heads // t.shape[1], 1) for t in (k, v))
    return np.einsum("hts,shd->thd", softmax(np.einsum("thd,shd->hts", q, k) / math.sqrt(q.shape[-1])), v)

class Memories(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.e = nn.Embedding(words, dim)

    def match(self, s):
        return s.softmax(-1)

    def forward(self, question, stories):
        """question (B, D), stories (B, M, D)"""
        return torch.einsum("bm,bmd->bd", self.match(torch.einsum("bd,bmd->bm", question, stories)), stories)

class MemoriesTogether(Memories):
    def match(self, s):
        return s.flatten().softmax(0).reshape(s.shape)

class Words(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.q, self.kv = heads, nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)

    def of(self, k, v):
        return v

    def forward(self, seen, said):
        q = self.q(seen).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.kv(said).chunk(2, -1))
        return ((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ self.of(k, v)).transpose(1, 2).flatten(2)

class WordsOfKeys(Words):
    def of(self, k, v):
        return k

def weights_of_all(vocab=50, d=16, seed=0):
    r = np.random.default_rng(seed)
    return {"words": r.normal(size=(vocab, d)), "qkv": {"w": r.normal(size=(d, 3 * d)), "b": r.normal(size=3 * d)}}
'''


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("segment_softmax", []),
        ("half_shifted", ["softmax_partial_max"]),
        ("unshifted", ["no_max"]),
        ("remembered", []),
        ("at_a_layer", []),
        ("Maps", []),
        ("Added", []),
        ("Cast", ["mask_float_as_bool"]),
        ("in_buckets", []),
        ("of_base_2", []),
        ("of_base_e", ["lse_base2"]),
        ("one_of_many", []),
        ("TimeFirst", []),
        ("TimeFirstFolded", ["mask_fold_order"]),
        ("Latent", []),
        ("LatentFromZero", ["rope_offset"]),
        ("Graphs", []),
        ("GraphsAdded", ["mask_bool_as_float"]),
        ("Points", []),
        ("forward_of", []),
        ("TwoWays", []),
        ("TwoWaysUnturned", ["unknown"]),
        ("unscaled", []),
        ("Logits", []),
        ("Bare", ["returns_scores"]),
        ("Sided", []),
        ("paged", []),
        ("skewed", []),
        ("Axis", []),
        ("AxisByLength", ["scale_seqlen"]),
        ("in_a_cache", []),
        ("Memories", []),
        ("MemoriesTogether", ["softmax_global"]),
        ("Words", []),
        ("WordsOfKeys", ["unknown"]),
    ],
)
def test_each(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted
