"""Keys that are chosen, blocks with a rest, heads beside their width, what is documented where it is handed to."""

from __future__ import annotations

from pathlib import Path

from overt.check.checking import examine
from overt.check.process.session import Session
from swapped import right_and_wrong

SOURCE = '''
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def best(q, keys, values, k, gone: torch.Tensor | None = None):
    """q (T, d), keys (N, d), values (N, e).  The k best keys alone are read.  gone (N,) bool: True is not read."""
    score = q @ keys.T / q.shape[-1] ** 0.5
    if gone is not None:
        score = score.masked_fill(gone, -torch.inf)
    top, at = score.topk(min(k, len(keys)), dim=-1)
    weights = top.softmax(-1)
    picked = values[at]
    return torch.einsum("tk,tke->te", weights, picked)


def streamed(q, k, v, block=128):
    """q (n, d), k (m, d), v (m, e), for any m."""
    top, total, out = np.full((len(q), 1), -np.inf), np.zeros((len(q), 1)), np.zeros((len(q), v.shape[1]))
    block = min(block, len(k))
    for i in range(-(-len(k) // block)):
        s = q @ k[i * block : (i + 1) * block].T / np.sqrt(q.shape[1])
        new = np.maximum(top, s.max(1, keepdims=True))
        p, old = np.exp(s - new), np.exp(top - new)
        top, total, out = new, total * old + p.sum(1, keepdims=True), out * old + p @ v[i * block : (i + 1) * block]
    return out / total


def resident(q, keys, values, chunk=1024):
    """q a tensor (n, d), keys and values arrays (N, d).  What it gives does not depend on the chunk."""
    top, total, out = torch.full((len(q), 1), -torch.inf), torch.zeros(len(q), 1), torch.zeros(len(q), values.shape[1])
    for a in range(0, len(keys), chunk):
        k, v = (torch.from_numpy(np.array(x[a : a + chunk])).to(q) for x in (keys, values))
        s = q @ k.T / q.shape[1] ** 0.5
        new = torch.maximum(top, s.amax(1, keepdim=True))
        p, old = torch.exp(s - new), torch.exp(top - new)
        top, total = new, total * old + p.sum(1, keepdim=True)
        out = out * old + p @ v
    return out / total


def allowed(n, span):
    i, j = np.arange(n)[:, None], np.arange(n)[None]
    return (j <= i) & (i - j < span)


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


class Trace:
    """A sample sees itself and the span - 1 samples before it: span in all.  ALiBi with slopes 1/2, 1/4, 1/8 …"""

    def __init__(self, w, span):
        """w: wq, wk, wv (C, H, d)"""
        self.w, self.span, self.heads = w, span, w["wq"].shape[1]

    def __call__(self, x):
        """x (n, C)"""
        q, k, v = (np.einsum("nc,chd->hnd", x, self.w[name]) for name in ("wq", "wk", "wv"))
        s = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
        back = np.arange(len(x))[:, None] - np.arange(len(x))
        s = s - 0.5 ** np.arange(1, self.heads + 1)[:, None, None] * back
        s = np.where(allowed(len(x), self.span), s, -np.inf)
        return softmax(s) @ v


def piece(q, k, v):
    """q (H, d); k, v (n, H, d): an output, and a log-sum-exp in base 2"""
    s = torch.einsum("hd,nhd->hn", q, k) * (1.4426950408889634 / q.shape[-1] ** 0.5)
    top = s.amax(-1, keepdim=True)
    p = torch.exp2(s - top)
    total = p.sum(-1, keepdim=True)
    return torch.einsum("hn,nhd->hd", p / total, v), (top + total.log2())[:, 0]


def shards(q, ks, vs):
    """One token against all shards, as if their keys were one array."""
    parts = [piece(q, k, v) for k, v in zip(ks, vs)]
    outs, lse = torch.stack([o for o, _ in parts]), torch.stack([l for _, l in parts])
    w = torch.exp2(lse - lse.amax(0))
    return ((w / w.sum(0))[..., None] * outs).sum(0)


class Columns(nn.Module):
    """x (B, C, H, W): each pixel looks along its column.  Heads share their keys and values."""

    def __init__(self, channels=32, heads=4):
        super().__init__()
        self.heads, self.d = heads, channels // heads
        self.q, self.kv = nn.Linear(channels, channels), nn.Linear(channels, 2 * self.d)

    def forward(self, x):
        b, c, h, w = x.shape
        rows = x.permute(0, 3, 2, 1).reshape(b * w, h, c)
        q = self.q(rows).view(b * w, h, self.heads, self.d)
        k, v = self.kv(rows).split(self.d, -1)
        s = torch.einsum("mihd,mjd->mhij", q, k) * self.d**-0.5
        y = torch.einsum("mhij,mjd->mihd", s.softmax(-1), v).reshape(b * w, h, c)
        return y.view(b, w, h, c).permute(0, 3, 2, 1)


class Gauges(nn.Module):
    """x (B, G, C); additive (B, G) float or None: 0.0 = usable, -inf = silent."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(dim, 3 * dim)

    def forward(self, x, additive=None):
        B, G, C = x.shape
        q, k, v = self.qkv(x).view(B, G, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = None if additive is None else additive[:, None, None, :]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(B, G, C)


class Grouped(nn.Module):
    """query_key_value: the rows are grouped by head: for head 0 first its q (D rows), then its k, then its v."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.query_key_value = heads, nn.Linear(dim, 3 * dim)

    def forward(self, x):
        B, T, C = x.shape
        y = self.query_key_value(x).view(B, T, self.heads, 3, -1)
        q, k, v = (one.transpose(1, 2) for one in y.unbind(3))
        s = q @ k.mT / q.shape[-1] ** 0.5
        return (s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C)


class Nights(nn.Module):
    """h (K, D) of several nights, night (K,) in 0..n_nights-1: one vector a night, and weights that sum to 1 in it."""

    def __init__(self, dim=64, hidden=32):
        super().__init__()
        self.V, self.U, self.w = nn.Linear(dim, hidden), nn.Linear(dim, hidden), nn.Linear(hidden, 1)

    def forward(self, h, night, n_nights):
        s = self.w(torch.tanh(self.V(h)) * torch.sigmoid(self.U(h))).squeeze(-1)
        top = torch.full((n_nights,), -torch.inf).index_reduce(0, night, s.detach(), "amax")
        e = torch.exp(s - top[night])
        a = e / torch.zeros(n_nights).index_add(0, night, e)[night]
        return torch.zeros(n_nights, h.shape[1]).index_add(0, night, a[:, None] * h), a


class Carried:
    """Causal linear attention, whose state goes on from call to call.  feed: q, k (T, H, D), v (T, H, E)"""

    def __init__(self, heads, dk, dv):
        self.heads, self.dk, self.dv = heads, dk, dv
        self.reset()

    def reset(self):
        self.S, self.z = np.zeros((self.heads, self.dk, self.dv)), np.zeros((self.heads, self.dk))

    def feed(self, q, k, v):
        fq, fk = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
        out = np.empty((len(q), self.heads, self.dv))
        for t in range(len(q)):
            self.S += fk[t][:, :, None] * v[t][:, None, :]
            self.z += fk[t]
            out[t] = np.einsum("hd,hde->he", fq[t], self.S) / np.einsum("hd,hd->h", fq[t], self.z)[:, None]
        return out


def rested(x, w, rest):
    """x (B, T, D), w: wq, wk, wv (D, D).  rest (B, T) is True on silent frames, which nobody
    should read."""
    q, k, v = (x @ w[name] for name in ("wq", "wk", "wv"))
    s = np.where(rest[:, None, :], -np.inf, q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1]))
    return softmax(s) @ v


def windowed(x, w, cfg, positions, cache=None):
    """x (B, T, D), w: wq, wk, wv (D, D), positions (B, T).  Causal; cfg: window=W: t sees W.  cache: k, v, at"""
    q, k, v = (x @ w[name] for name in ("wq", "wk", "wv"))
    at = positions
    if cache is not None:
        k, v, at = (np.concatenate(pair, 1) for pair in zip(cache, (k, v, positions)))
    away = positions[:, :, None] - at[:, None]
    s = np.where((away >= 0) & (away < cfg["window"]), q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1]), -np.inf)
    return softmax(s) @ v, (k, v, at)


class Table:
    """Causal attention of x (n, c), with a learned bias (heads, longest, longest).  w: wq, wk, wv (c, c)"""

    def __init__(self, w, bias, heads):
        self.w, self.bias, self.heads = w, np.asarray(bias, np.float64), heads

    def __call__(self, x):
        n = len(x)
        q, k, v = ((x @ self.w[name]).reshape(n, self.heads, -1).swapaxes(0, 1) for name in ("wq", "wk", "wv"))
        s = self.bias[:, :n, :n].copy()
        s += q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
        return (softmax(np.where(np.tri(n, dtype=bool), s, -np.inf)) @ v).swapaxes(0, 1).reshape(n, -1)


class Store:
    def __init__(self, heads, width):
        self.k, self.v = np.zeros((heads, 0, width), np.float32), np.zeros((heads, 0, width), np.float32)

    def add(self, k, v):
        self.k, self.v = np.concatenate([self.k, k], 1), np.concatenate([self.v, v], 1)


class Stored(nn.Module):
    """x (T, dim), a part of a text; keys and values of the parts before it lie in arrays, which nobody trains."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.store = heads, nn.Linear(dim, 3 * dim), Store(heads, dim // heads)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(0, 1) for y in self.qkv(x).chunk(3, -1))
        near = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        if self.store.k.shape[1]:
            far_k, far_v = torch.from_numpy(self.store.k).to(x), torch.from_numpy(self.store.v).to(x)
            near = (near + (q @ far_k.mT / q.shape[-1] ** 0.5).softmax(-1) @ far_v) / 2
        self.store.add(k.detach().float().numpy(), v.detach().float().numpy())
        return near.transpose(0, 1).flatten(1)


class Terms(nn.Module):
    """Scores of two terms, with a scale of both widths together."""

    def __init__(self, dim=32, heads=4, near=8, far=4):
        super().__init__()
        self.heads, self.near, self.far, self.scale = heads, near, far, (near + far) ** -0.5
        self.q = nn.Linear(dim, heads * (near + far))
        self.k, self.shared, self.v = nn.Linear(dim, heads * near), nn.Linear(dim, far), nn.Linear(dim, dim)

    def forward(self, x):
        """x (B, T, dim)"""
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (self.k(x), self.v(x)))
        near, far = q.split([self.near, self.far], -1)
        s = torch.einsum("bhtd,bsd->bhts", far, self.shared(x))
        s = (s + near @ k.mT) * self.scale
        return (s.softmax(-1) @ v).transpose(1, 2).flatten(2)


class Among(nn.Module):
    """x (B, N, dim): each sample is one token, and attention runs over B."""

    def __init__(self, columns, dim, heads=2):
        super().__init__()
        self.mix = nn.MultiheadAttention(columns * dim, heads, batch_first=True)

    def forward(self, x):
        rows = x.reshape(1, len(x), -1)
        return self.mix(rows, rows, rows, need_weights=False)[0].reshape(x.shape)


class Dropping(nn.Module):
    """Gives what was mixed, and the weights."""

    def __init__(self, dim, heads, dropout=0.1, cap=30.0):
        super().__init__()
        self.heads, self.cap, self.qkv = heads, cap, nn.Linear(dim, 3 * dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        s = q @ k.mT / q.shape[-1] ** 0.5
        s = self.cap * torch.tanh(s / self.cap)
        w = s.softmax(-1)
        return (self.dropout(w) @ v).transpose(1, 2).flatten(2), w


class Remembers:
    def __init__(self, capacity=8):
        self.memo = {}

    def __call__(self, query, keys, values):
        """query (T, d), keys (S, d), values (S, d)"""
        tag = query.tobytes(), keys.tobytes()
        if tag not in self.memo:
            self.memo[tag] = softmax(query @ keys.T / np.sqrt(query.shape[1]))
        return self.memo[tag] @ values
'''

# A candidate, what stands in the place of what in it, and what is found then: in the line that ends in "here".
WRONG = [
    ("best", "picked = values[at]", "picked = values[at.sort(-1)[0]]  # here", "unknown"),
    ("best", "score = q @ keys.T / q.shape[-1] ** 0.5", "score = q @ keys.T / q.shape[-1]  # here", "scale_d"),
    ("streamed", "range(-(-len(k) // block)):", "range(len(k) // block):  # here", "unknown"),
    (
        "resident",
        "out = out * old + p @ v\n    return out / total\n\n\ndef allowed",
        "out = out + p @ v\n    return out / total\n\n\ndef allowed",
        "unknown",
    ),
    ("Trace", "[:, None, None] * back", "[:, None, None] * -back  # here", "alibi_sign"),
    ("Trace", "(i - j < span)", "(i - j <= span)  # here", "window_off_by_one"),
    ("shards", "w = torch.exp2(lse - lse.amax(0))", "w = torch.exp(lse - lse.amax(0))  # here", "lse_base2"),
    ("Columns", '"mhij,mjd->mihd", s', '"mhij,mjd->mhid", s', "merge_view"),
    ("Gauges", "additive[:, None, None, :]", "additive[:, None, None, :].to(torch.bool)  # here", "mask_float_as_bool"),
    ("Grouped", "self.heads, 3, -1)\n", "3, self.heads, -1).transpose(2, 3)\n", "qkv_order"),
    ("Carried", "self.z += fk[t]", "self.z += 2 * fk[t]", "unknown"),
    ("rested", "np.where(rest[:, None, :], -np.inf,", "np.where(~rest[:, None, :], -np.inf,", "mask_inverted"),
    (
        "windowed",
        "s = np.where((away >= 0) &",
        "s = np.where((away >= -1) &  # here\n                ",
        "causal_off_by_one",
    ),
    ("Table", "self.bias[:, :n, :n].copy()", "self.bias[:, :n, :n]", "inplace"),
    ("Dropping", "        s = self.cap * torch.tanh(s / self.cap)\n", "", "softcap_missing"),
    ("Remembers", "tag = query.tobytes(), keys.tobytes()", "tag = len(query), keys.tobytes()  # here", "cache_key"),
]
NAMES = [*dict.fromkeys(row[0] for row in WRONG), "Nights", "Stored", "Terms", "Among"]


def found(session: Session, file: Path, name: str, source: str) -> dict[str, str]:
    """The mistakes that are found, and the lines that are shown."""
    file.write_text(source)
    findings = examine(session, f"{file}:{name}").findings
    return {f.id: f.where["text"] if f.where else "" for f in findings if f.kind in ("mistake", "unknown")}


test_right, test_wrong = right_and_wrong(SOURCE, WRONG, right=NAMES)
