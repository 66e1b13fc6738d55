"""What nothing but a text, or the way something is used, tells: masks without a name, widths, places, capacities."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session

Mistakes = Callable[[str], list[str]]

SOURCE = '''"""Weights come from a dictionary with the names of an export."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def told(nem, pol, zub, rif=None):
    """nem, pol, zub (B, T, D); rif: True where a query may see a key."""
    s = nem @ np.swapaxes(pol, -1, -2) / math.sqrt(nem.shape[-1])
    return softmax(s if rif is None else np.where(rif, s, -1e9)) @ zub

def told_and_turned(nem, pol, zub, rif=None):
    """nem, pol, zub (B, T, D); rif: True where a query may see a key."""
    s = nem @ np.swapaxes(pol, -1, -2) / math.sqrt(nem.shape[-1])
    return softmax(s if rif is None else np.where(rif, -1e9, s)) @ zub

def told_of_tokens(nem, pol, zub, rif):
    """rif: (B, S), True = a real token."""
    s = np.einsum("bhid,bhjd->bhij", nem, pol) / math.sqrt(nem.shape[-1])
    return softmax(np.where(rif[:, None, :, None], s, -1e9)) @ zub

def told_to_be_added(nem, pol, zub, rif=None):
    """rif: additive, 0 or -inf"""
    s = nem @ pol.mT / math.sqrt(nem.shape[-1])
    return (s if rif is None else s.masked_fill(rif == 0, -torch.inf)).softmax(-1) @ zub

def chosen_by(nem, pol, zub, rif):
    s = nem @ np.swapaxes(pol, -1, -2) / math.sqrt(nem.shape[-1])
    return softmax(np.where(rif, s, -1e9)) @ zub

def chosen_by_and_lifted(nem, pol, zub, rif):
    s = nem @ np.swapaxes(pol, -1, -2) / math.sqrt(nem.shape[-1])
    return softmax(np.where(rif, s, np.inf)) @ zub

def near(q, k, v, window, sign=-1):
    at = np.arange(q.shape[-2])
    s = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    return softmax(np.where(np.abs(at[:, None] + sign * at) <= window, s, -np.inf)) @ v

def near_the_first(q, k, v, window):
    return near(q, k, v, window, 1)

class Frames:
    """weights: {"q": [Dm, D], "k": [Dt, D], "v": [Dt, D]}"""
    def __init__(self, weights):
        self.wq, self.wk, self.wv = weights["q"], weights["k"], weights["v"]
        self.scale = self.wq.shape[1] ** -0.5

    def __call__(self, mel, text):
        """returns (context [T, D], alignment [T, N])"""
        q, k, v = mel @ self.wq, text @ self.wk, text @ self.wv
        weights = softmax(q @ k.T * self.scale)
        return weights @ v, weights

class FramesDivided(Frames):
    def __call__(self, mel, text):
        """returns (context [T, D], alignment [T, N])"""
        q, k, v = mel @ self.wq, text @ self.wk, text @ self.wv
        weights = softmax(q @ k.T / self.scale)
        return weights @ v, weights

class Hyper:
    def __init__(self, d=32, h=4, kv=2, layers=1):
        self.d, self.h, self.kv, self.layers = d, h, kv, layers
        self.hd = d // h

class Room:
    def __init__(self, hp, cap):
        self.k = np.zeros((hp.layers, cap, hp.kv, hp.hd))
        self.v = np.zeros((hp.layers, cap, hp.kv, hp.hd))
        self.n = 0

def attend(W, hp, layer, x, room, behind=0):
    """x: [T, d], the T tokens after the room.n ones already seen. Causal."""
    p = f"model.layers.{layer}.self_attn."
    T, n = len(x), room.n
    q = (x @ W[p + "q_proj.weight"].T).reshape(T, hp.h, hp.hd)
    room.k[layer, n : n + T] = (x @ W[p + "k_proj.weight"].T).reshape(T, hp.kv, hp.hd)
    room.v[layer, n : n + T] = (x @ W[p + "v_proj.weight"].T).reshape(T, hp.kv, hp.hd)
    k, v = (one[layer, : n + T].repeat(hp.h // hp.kv, 1) for one in (room.k, room.v))
    s = np.einsum("thd,shd->hts", q, k) / math.sqrt(hp.hd)
    s = np.where(np.arange(n + T) <= np.arange(n, n + T)[:, None] + behind, s, -np.inf)
    return np.einsum("hts,shd->thd", softmax(s), v).reshape(T, hp.d) @ W[p + "o_proj.weight"].T

def attend_ahead(W, hp, layer, x, room):
    """x: [T, d], the T tokens after the room.n ones already seen. Causal."""
    return attend(W, hp, layer, x, room, behind=1)

class Remembering:
    """The weights of keys that were met before are kept."""
    def __init__(self):
        self.cache = {}

    def __call__(self, queries, keys, values):
        tag = keys.tobytes()
        if tag not in self.cache:
            self.cache[tag] = softmax(queries @ keys.T / math.sqrt(keys.shape[1]))
        return self.cache[tag] @ values

class Stuck(nn.Module):
    def __init__(self, dim, p=0.2):
        super().__init__()
        self.p = p
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        if not self.training:
            self.p = 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)

class Grid(nn.Module):
    """Additive attention: for each region a score of the state and that region."""
    def __init__(self, units, most=64):
        super().__init__()
        self.state, self.score = nn.Linear(units, units), nn.Linear(units, most)

    def forward(self, state, regions):
        """state [B, C], regions [B, R, F]"""
        s = self.score(torch.tanh(self.state(state)))[:, : regions.shape[1]]
        return (s.softmax(-1)[..., None] * regions).to(torch.float32).sum(1)
'''


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("told", []),
        ("told_and_turned", ["mask_inverted"]),
        ("told_of_tokens", ["pad_on_query"]),
        ("told_to_be_added", ["mask_float_as_bool"]),
        ("chosen_by", []),
        ("chosen_by_and_lifted", ["mask_sign_inf"]),
        ("near", []),
        ("near_the_first", ["full_row_nan"]),
        ("Frames", []),
        ("FramesDivided", ["scale_inverted"]),
        ("attend", []),
        ("attend_ahead", ["causal_off_by_one"]),
        ("Grid", ["additive_ignores_keys"]),
    ],
)
def test_each(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted


@pytest.mark.parametrize(
    ("name", "mistake", "text"),
    [("Remembering", "cache_key", "tag = keys.tobytes()"), ("Stuck", "dropout_stuck_off", "self.p = 0.0")],
)
def test_what_happens_between_calls_is_in_no_constructor(
    session: Session, file: Path, name: str, mistake: str, text: str
) -> None:
    (found,) = (f for f in examine(session, f"{file}:{name}").findings if f.id == mistake)
    assert found.where is not None
    assert found.where["text"] == text
