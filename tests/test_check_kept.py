"""What is kept and thrown away, filled up, read block by block, and named by texts that something is put in."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session
from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

LAYER = "layers.{number}."


class Stream(nn.Module):
    """One frame a call: x (B, D) -> (B, D).  The first two frames are kept for ever, and the last four."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.k, self.v = heads, nn.Linear(dim, 3 * dim), None, None

    def short(self, x):
        return x if x.shape[2] <= 6 else torch.cat([x[:, :, :2], x[:, :, -4:]], 2)

    def forward(self, x):
        q, k, v = self.qkv(x).view(len(x), 3, self.heads, 1, -1).unbind(1)
        if self.k is not None:
            k, v = torch.cat([self.k, k], 2), torch.cat([self.v, v], 2)
        self.k, self.v = self.short(k), self.short(v)
        return ((q @ self.k.mT / q.shape[-1] ** 0.5).softmax(-1) @ self.v).flatten(1)


def filled(q, k, v, chunk=4):
    """softmax(q k^T / sqrt(d)) v, any length.  q, k, v (B, H, T, D)"""
    more = -k.shape[2] % chunk
    k, v = F.pad(k, (0, 0, 0, more)), F.pad(v, (0, 0, 0, more))
    s = q @ k.mT / q.shape[-1] ** 0.5
    s[..., s.shape[-1] - more :] = -torch.inf
    return s.softmax(-1) @ v


def online(q, k, v, block):
    """softmax(q k^T / sqrt(D)) v of q, k, v (H, T, D), whatever the block is."""
    q = q / np.sqrt(q.shape[-1])
    s = np.einsum("hid,hjd->hij", q, k[:, :block])
    top = s.max(-1, keepdims=True)
    e = np.exp(s - top)
    total, out = e.sum(-1, keepdims=True), np.einsum("hij,hjd->hid", e, v[:, :block])
    for a in range(block, k.shape[1], block):
        s = np.einsum("hid,hjd->hij", q, k[:, a : a + block])
        new = np.maximum(top, s.max(-1, keepdims=True))
        e, less = np.exp(s - new), np.exp(top - new)
        total, top = total * less + e.sum(-1, keepdims=True), new
        out = out * less + np.einsum("hij,hjd->hid", e, v[:, a : a + block])
    return out / total


def split(q, cache_k, cache_v, parts=4):
    """One query a head over the whole cache: q (H, D), cache_k and cache_v (n, H, D)."""
    ends = np.linspace(0, len(cache_k), min(parts, len(cache_k)) + 1).astype(int)
    outs, sums = [], []
    for a, b in zip(ends[:-1], ends[1:]):
        s = np.einsum("hd,nhd->hn", q, cache_k[a:b]) * (q.shape[-1] ** -0.5 * np.log2(np.e))
        p = np.exp2(s - s.max(1, keepdims=True))
        outs.append(np.einsum("hn,nhd->hd", p, cache_v[a:b]) / p.sum(1)[:, None])
        sums.append(s.max(1) + np.log2(p.sum(1)))
    outs, sums = np.stack(outs), np.stack(sums)
    w = np.exp2(sums - sums.max(0))
    return (outs * (w / w.sum(0))[..., None]).sum(0)


def layer(weights, number, x, heads=4):
    """x (B, L, D) -> (B, L, D), by the weights of a layer (outputs, inputs)."""
    start = LAYER.format(number=number) + "attention."
    b, n, d = x.shape
    q, k, v = (
        (x @ weights[start + one + ".weight"].T + weights[start + one + ".bias"])
        .reshape(b, n, heads, d // heads).transpose(0, 2, 1, 3) for one in ("query", "key", "value")
    )
    s = q @ k.swapaxes(-1, -2) / np.sqrt(d // heads)
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(b, n, d)


class Flow:
    """Linear attention (elu + 1) of a stream that forgets, without a softmax and without 1/sqrt(d)."""

    def __init__(self, heads, key_dim, value_dim, keep=0.9):
        self.keep = keep
        self.S, self.z = np.zeros((heads, key_dim, value_dim)), np.zeros((heads, key_dim))

    def push(self, k, v):
        """k (h, key_dim), v (h, value_dim)"""
        fk = np.where(k > 0, k + 1, np.exp(np.minimum(k, 0)))
        self.S = self.keep * self.S + np.einsum("hk,hv->hkv", fk, v)
        self.z = self.keep * self.z + fk

    def read(self, q):
        """q (h, key_dim) -> (h, value_dim)"""
        fq = np.where(q > 0, q + 1, np.exp(np.minimum(q, 0)))
        return np.einsum("hk,hkv->hv", fq, self.S) / (np.einsum("hk,hk->h", fq, self.z)[:, None] + 1e-12)


class Reader:
    """One query against what it remembers: q (d,), memory (S, d), seen (S,) 1 = word, 0 = nothing there."""

    def __call__(self, q, memory, seen=None):
        s = memory @ q / np.sqrt(len(q))
        if seen is not None:
            s = np.where(seen == 1, s, -np.inf)
        e = np.exp(s - s.max())
        return e / e.sum() @ memory


class Rows(nn.Module):
    """Heads in front of samples.  padding (B, S): True = no token."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(dim, 3 * dim)

    def forward(self, x, padding=None):
        """x (B, T, dim)"""
        q, k, v = (torch.cat(y.chunk(self.heads, -1)) for y in self.qkv(x).chunk(3, -1))
        s = q @ k.mT / q.shape[-1] ** 0.5
        if padding is not None:
            s = s.masked_fill(padding[:, None].repeat(self.heads, 1, 1), -torch.inf)
        return torch.cat((s.softmax(-1) @ v).chunk(self.heads), -1)
'''

# A candidate, what stands in the place of what in it, and what is found then.
WRONG = [
    (
        "Stream",
        "self.k, self.v = self.short(k), self.short(v)",
        "self.k, self.v = self.short(k), v[:, :, -6:]",
        "unknown",
    ),
    ("filled", "    s[..., s.shape[-1] - more :] = -torch.inf\n", "", "unknown"),
    ("online", "np.exp(top - new)", "np.exp(new - top)", "unknown"),
    ("split", "w = np.exp2(sums - sums.max(0))", "w = np.exp(sums - sums.max(0))", "lse_base2"),
    ("layer", "np.sqrt(d // heads)", "np.sqrt(d)", "scale_dmodel"),
    ("Flow", "self.z = self.keep * self.z + fk", "self.z = self.z + fk", "unknown"),
    ("Reader", "np.where(seen == 1, s, -np.inf)", "s * seen", "mask_times_scores"),
    ("Rows", ".repeat(self.heads, 1, 1)", ".repeat_interleave(self.heads, 0)", "mask_fold_order"),
]


def found(session: Session, file: Path, name: str, source: str) -> set[str]:
    file.write_text(source)
    return {f.id for f in examine(session, f"{file}:{name}").findings if f.kind in ("mistake", "unknown")}


test_right, test_wrong = right_and_wrong(SOURCE, WRONG)
