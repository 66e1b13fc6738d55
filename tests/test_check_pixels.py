"""Masks of pixels, keys that are never made, values of other samples, packed rows, and sums over all edges."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import math
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


class Look(nn.Module):
    """
    ask      (Q, B, C)     queries
    picture  (B, C, H, W)  features
    filler   (B, H, W)     bool; True on the pixels that were only appended to bring all pictures to one size;
                           these get no weight
    """

    def __init__(self, c, heads=4):
        super().__init__()
        self.heads, self.q, self.kv, self.o = heads, nn.Linear(c, c), nn.Linear(c, 2 * c), nn.Linear(c, c)

    def forward(self, ask, picture, filler):
        cells = picture.flatten(2).permute(2, 0, 1)
        parts = (self.q(ask), *self.kv(cells).chunk(2, -1))
        q, k, v = (t.unflatten(-1, (self.heads, -1)).permute(1, 2, 0, 3) for t in parts)
        sees = ~filler.flatten(1)[:, None, None]
        return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=sees).permute(2, 0, 1, 3).flatten(2))


def latent_step(x, wq, wuk, wdkv, wuv, wo, past):
    """x (B, D), wq (D, H, n), wuk (R, H, n), wdkv (D, R), wuv (R, H, n), wo (H, n, D), past (B, S, R).

    Latents are kept, and keys are never made: wuk is folded into the query.
    """
    c = np.concatenate([past, (x @ wdkv)[:, None]], 1)
    folded = np.einsum("bhn,rhn->bhr", np.einsum("bd,dhn->bhn", x, wq), wuk)
    s = np.einsum("bhr,bsr->bhs", folded, c) / math.sqrt(wq.shape[-1])
    s = np.exp(s - s.max(-1, keepdims=True))
    mixed = np.einsum("bhs,bsr->bhr", s / s.sum(-1, keepdims=True), c)
    return np.einsum("bhr,rhn,hnd->bd", mixed, wuv, wo), c


class Near(nn.Module):
    """xyz (B, N, 3), feat (B, N, C) -> (B, N, C)"""

    def __init__(self, c=16, k=4):
        super().__init__()
        self.k, self.qkv = k, nn.Linear(c, 3 * c)
        self.place, self.score = nn.Linear(3, c), nn.Sequential(nn.Linear(c, c), nn.ReLU(), nn.Linear(c, c))

    def forward(self, xyz, feat):
        at = torch.cdist(xyz, xyz).topk(self.k, -1, largest=False).indices
        b = torch.arange(len(xyz))[:, None, None]
        q, k, v = self.qkv(feat).chunk(3, -1)
        delta = self.place(xyz[:, :, None] - xyz[b, at])
        a = (self.score(q[:, :, None] - k[b, at] + delta) / q.shape[-1] ** 0.5).softmax(2)
        return feat + (a * (v[b, at] + delta)).sum(2)


def converted(x, w, heads):
    """Softmax of q.k / sqrt(head size) per head.

    x  (B, T, C)
    w  dict: "qkv" (3*C, C) rows as in nn.MultiheadAttention: first the C rows of q (head 0, 1, ...), then k, then v;
       "out" (C, C)
    """
    B, T, C = x.shape
    q, k, v = F.linear(x, w["qkv"]).view(B, T, 3, heads, C // heads).permute(2, 0, 3, 1, 4)
    p = torch.softmax(q @ k.transpose(-1, -2) / (C // heads) ** 0.5, -1)
    return F.linear((p @ v).transpose(1, 2).reshape(B, T, C), w["out"])


def bonded(atoms, bonds, kind, p):
    """
    atoms (N, F); bonds (2, E) int, (i, j): atom i receives from atom j; kind (E,) int;
    p     dict "q", "k", "v" (F, H*d), "o" (H*d, F), "bond" (n_types, H), "heads" H
    """
    n, i, j = len(atoms), *bonds
    q, k, v = ((atoms @ p[name]).reshape(n, p["heads"], -1) for name in "qkv")
    z = (q[i] * k[j]).sum(-1) / np.sqrt(q.shape[-1]) + p["bond"][kind]
    a = np.exp(z - z.max(axis=0))
    total = np.zeros(q.shape[:2])
    np.add.at(total, i, a)
    a = a / total[i]
    out = np.zeros_like(v)
    np.add.at(out, i, a[:, :, None] * v[j])
    return atoms + out.reshape(n, -1) @ p["o"]


def windows(img, wqkv, wo, table, heads, M):
    """
    img    (N, H, W, C), H and W multiples of the window size M
    wqkv   (C, 3*C), wo (C, C)
    table  ((2M-1)**2, heads)  relative position bias
    """
    N, H, W, C = img.shape
    cut = img.reshape(N, H // M, M, W // M, M, C).swapaxes(2, 3).reshape(-1, M * M, C)
    q, k, v = (t.reshape(-1, M * M, heads, C // heads) for t in np.split(cut @ wqkv, 3, axis=-1))
    y, x = np.divmod(np.arange(M * M), M)
    index = (y[:, None] - y + M - 1) * (2 * M - 1) + x[:, None] - x + M - 1
    s = np.einsum("wihd,wjhd->whij", q, k) / math.sqrt(C // heads) + table[index].transpose(2, 0, 1)
    s = np.exp(s - s.max(-1, keepdims=True))
    out = np.einsum("whij,wjhd->wihd", s / s.sum(-1, keepdims=True), v).reshape(-1, M * M, C) @ wo
    return out.reshape(N, H // M, W // M, M, M, C).swapaxes(2, 3).reshape(N, H, W, C)


def rotate(x, start):
    n, d = x.shape[-2:]
    at = torch.arange(start, start + n, dtype=x.dtype)
    angle = torch.outer(at, 10000.0 ** (-torch.arange(0, d, 2, dtype=x.dtype) / d))
    one, two = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([one * angle.cos() - two * angle.sin(), two * angle.cos() + one * angle.sin()], -1)


class Stream(nn.Module):
    """x (B, T, D) are the new tokens, cache None or (k, v) of those before."""

    def __init__(self, D=32, H=4):
        super().__init__()
        self.H, self.qkv, self.o = H, nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x, cache=None):
        past = 0 if cache is None else cache[0].size(2)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.H, -1)).permute(2, 0, 3, 1, 4)
        total = past + x.size(1)
        q, k = rotate(q, past), rotate(k, past)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        see = torch.ones(x.size(1), total, dtype=torch.bool).tril(past)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=see)
        return self.o(y.transpose(1, 2).flatten(2)), (k, v)
'''

BOTH = [
    ("Look", "sees = ~filler", "sees = filler", "mask_inverted"),
    ("latent_step", " / math.sqrt(wq.shape[-1])", "", "scale_missing"),
    ("Near", "(a * (v[b, at] + delta)).sum(2)", "(a * (v[0][at] + delta)).sum(2)  # here", "unknown"),
    ("converted", "3, heads, C // heads).permute(2, 0, 3", "heads, 3, C // heads).permute(3, 0, 2", "qkv_order"),
    ("bonded", "a = a / total[i]", "a = a / a.sum(axis=0)  # here", "softmax_global"),
    ("windows", "math.sqrt(C // heads)", "math.sqrt(C)", "scale_dmodel"),
    ("windows", "M, M, M, C).swapaxes(2, 3)", "M, M, M, C)", "unknown"),
    ("Stream", "rotate(q, past), rotate(k, past)", "rotate(q, total), rotate(k, total)  # here", "rope_offset"),
]

test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
