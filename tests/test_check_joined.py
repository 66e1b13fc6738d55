"""What a call is made of: weights that its file makes, default settings, columns of a documentation, joined weights."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import numpy as np
import torch
from torch import nn


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def draw(d=16, ff=24, seed=0):
    g = np.random.default_rng(seed)
    w = {n: g.normal(0, 0.3, (d, d)) for n in ("frage", "ort", "inhalt", "aus")}
    w.update({n + "_v": g.normal(0, 0.1, d) for n in ("frage", "ort", "inhalt", "aus")})
    w.update(up=g.normal(0, 0.3, (d, ff)), up_v=np.zeros(ff), down=g.normal(0, 0.3, (ff, d)), down_v=np.zeros(d))
    return w


def layer(w, hidden, real, heads=4):
    """hidden (B, L, D); real (B, L), 1 for word pieces and 0 for the rest."""
    B, L, D = hidden.shape

    def project(name):
        return (hidden @ w[name] + w[name + "_v"]).reshape(B, L, heads, D // heads).transpose(0, 2, 1, 3)

    q, k, v = project("frage"), project("ort"), project("inhalt")
    hides = np.where(real[:, None, None, :] > 0, 0.0, -np.inf)
    p = softmax(q @ k.transpose(0, 1, 3, 2) / (D // heads) ** 0.5 + hides)
    x = hidden + (p @ v).transpose(0, 2, 1, 3).reshape(B, L, D) @ w["aus"] + w["aus_v"]
    return x + np.maximum(x @ w["up"] + w["up_v"], 0) @ w["down"] + w["down_v"]


def weights(emb, hid, enc, att, seed=0):
    g = np.random.default_rng(seed)
    m = lambda *s: g.normal(0, 0.3, s)
    return dict(A=m(hid, att), B=m(enc, att), a=m(att), Z=m(emb + enc, hid), S=m(hid, hid))


def search_step(p, y, s, h):
    """
    y  (B, emb)      the last word
    s  (B, hid)      the state
    h  (B, Tx, enc)  annotations
    """
    e = np.tanh((s @ p["A"])[:, None, :] + h @ p["B"]) @ p["a"]
    context = np.einsum("bt,bte->be", softmax(e), h)
    return np.tanh(np.concatenate([y, context], axis=-1) @ p["Z"] + s @ p["S"])


class Policy(nn.Module):
    """
    joints  (B, n_joints)
    tokens  (B, n_tok, d_cam)
    """

    def __init__(self, cfg={"n_joints": 7, "d_cam": 20, "n_tok": 9, "dim": 32, "heads": 4}):
        super().__init__()
        d = cfg["dim"]
        self.one, self.many = nn.Linear(cfg["n_joints"], d), nn.Linear(cfg["d_cam"], d)
        self.place = nn.Parameter(torch.randn(1, 1 + cfg["n_tok"], d) * 0.1)
        self.mix = nn.MultiheadAttention(d, cfg["heads"], batch_first=True)

    def forward(self, joints, tokens):
        x = torch.cat([self.one(joints)[:, None], self.many(tokens)], 1) + self.place
        return x + self.mix(x, x, x, need_weights=False)[0]


class Reader(nn.Module):
    """Score « general » de Luong.

    mot   (B,)        indices
    etat  (h, c)      chacun (1, B, hid)
    enc   (B, S, hid) sorties
    """

    def __init__(self, vocab, emb=16, hid=24):
        super().__init__()
        self.emb, self.lstm = nn.Embedding(vocab, emb), nn.LSTM(emb, hid, batch_first=True)
        self.W = nn.Linear(hid, hid, bias=False)

    def forward(self, mot, etat, enc):
        h, etat = self.lstm(self.emb(mot)[:, None], etat)
        scores = self.W(h) @ enc.transpose(1, 2)
        return scores.softmax(-1) @ enc, etat


def joined(x, Wq, Wk, Wv, Wo, heads=2):
    """x (B, T, D); the matrices are (D, D)."""
    B, T, D = x.shape
    q, k, v = np.split(x @ np.concatenate([Wq, Wk, Wv], axis=1), 3, axis=-1)
    q, k, v = (z.reshape(B, T, heads, D // heads).transpose(0, 2, 1, 3) for z in (q, k, v))
    p = softmax(q @ np.swapaxes(k, -1, -2) / (D // heads) ** 0.5)
    return (p @ v).transpose(0, 2, 1, 3).reshape(B, T, D) @ Wo


class CausalBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.qkv, self.out = h, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.h, -1).transpose(1, 2) for t in self.qkv(x).split(C, 2))
        s = q @ k.mT / q.size(-1) ** 0.5
        s = s.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf)
        return x + self.out((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Trunk(nn.Module):
    """x (B, T, width)."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.blocks = nn.ModuleList(CausalBlock(width, heads) for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
'''
# The candidate, what is right, what is wrong in its place, and what is then told.
BOTH = [
    (
        "layer",
        "np.where(real[:, None, None, :] > 0, 0.0, -np.inf)",
        "real[:, None, None, :].astype(hidden.dtype)",
        "mask_bool_as_float",
    ),
    ("search_step", "e = np.tanh(", "e = (", "additive_no_tanh"),
    ("Policy", 'cfg["heads"], batch_first=True', 'cfg["heads"]', "batch_first"),
    ("Reader", "scores.softmax(-1) @ enc", "scores.softmax(1) @ enc", "softmax_axis_q"),
    ("joined", "q, k, v = np.split", "q, v, k = np.split", "qkv_order"),
    ("Trunk", "s = s.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf)", "pass", "causal_missing"),
]


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
