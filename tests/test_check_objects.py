"""What is kept by a rule, what objects inside are given, and what moves: tables, scopes, windows, edges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session

pytest.importorskip("torch")

Mistakes = Callable[[str], list[str]]

SOURCE = '''
import math
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def sines(n, d, step):
    pe = np.zeros((n, d))
    for i in range(0, d, 2):
        pe[:, i] = np.sin(np.arange(n) / 10000 ** (step * i / d))
        pe[:, i + 1] = np.cos(np.arange(n) / 10000 ** (step * i / d))
    return pe

class Words:
    """Positions are the sines and cosines of Vaswani et al.; a word sees itself and those before it."""
    step = 1

    def __init__(self, vocab, n_ctx, d, seed=0):
        r = np.random.default_rng(seed)
        self.wte, self.wpe = r.normal(0, 0.5, (vocab, d)), sines(n_ctx, d, self.step)
        self.wq, self.wk, self.wv = (r.normal(0, d ** -0.5, (d, d)) for _ in range(3))
        self.see = np.tril(np.ones((n_ctx, n_ctx)))

    def __call__(self, ids):
        x = self.wte[ids] + self.wpe[: len(ids)]
        s = (x @ self.wq) @ (x @ self.wk).T / math.sqrt(x.shape[-1])
        s = np.where(self.see[: len(ids), : len(ids)] > 0, s, -np.inf)
        return softmax(s) @ (x @ self.wv)

class WordsTwice(Words):
    step = 2

class Scope:
    def __init__(self, w, prefix=""):
        self.w, self.prefix = w, prefix

    def __truediv__(self, name):
        return Scope(self.w, f"{self.prefix}{name}.")

    def linear(self, x):
        return x @ self.w[self.prefix + "weight"].T + self.w[self.prefix + "bias"]

def scoped(scope, x, heads, power=0.5):
    b, t, c = x.shape
    def split(name):
        y = (scope / name).linear(x)
        return np.moveaxis(y.reshape(b, t, heads, c // heads), 2, 0)  # heads first: [H, B, T, hd]
    q, k, v = split("q_proj"), split("k_proj"), split("v_proj")
    y = softmax(q @ np.swapaxes(k, 2, 3) / (c // heads) ** power) @ v
    return (scope / "out_proj").linear(np.moveaxis(y, 0, 2).reshape(b, t, c))

def scoped_twice(scope, x, heads):
    return scoped(scope, x, heads, 1.0)

class Drehung:
    def __init__(self, dim, laenge=256):
        winkel = np.outer(np.arange(laenge), 1e4 ** -(np.arange(0, dim, 2) / dim))
        self.cos, self.sin = (np.concatenate([f(winkel)] * 2, -1) for f in (np.cos, np.sin))

    def __call__(self, x, ab=0):
        t, d = x.shape[1:]
        gedreht = np.concatenate([-x[..., d // 2:], x[..., : d // 2]], -1)
        return x * self.cos[ab:ab + t] + gedreht * self.sin[ab:ab + t]

class Lesend:
    """Causal, with a memory of all words before."""
    def __init__(self, g, koepfe, drehung):
        self.wq, self.wk, self.wv = (g[f"{n}_proj"] for n in "qkv")
        self.n, self.drehung = koepfe, drehung
        self.vergiss()

    def vergiss(self):
        self.k = self.v = None

    def gedreht(self, q, k):
        ab = 0 if self.k is None else self.k.shape[1]
        return self.drehung(q, ab), self.drehung(k, ab)

    def __call__(self, x):
        """x [t, breite]: the new words"""
        t = len(x)
        q, k, v = ((x @ w.T).reshape(t, self.n, -1).swapaxes(0, 1) for w in (self.wq, self.wk, self.wv))
        q, k = self.gedreht(q, k)
        if self.k is not None:
            k, v = np.concatenate([self.k, k], 1), np.concatenate([self.v, v], 1)
        self.k, self.v = k, v
        s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        spaeter = np.arange(k.shape[1])[None] > np.arange(k.shape[1] - t, k.shape[1])[:, None]
        return (softmax(np.where(spaeter, -np.inf, s)) @ v).swapaxes(0, 1).reshape(t, -1)

class LesendVonVorn(Lesend):
    def gedreht(self, q, k):
        return self.drehung(q), self.drehung(k)

def windows(x, w):
    B, H, W, C = x.shape
    return x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)

def whole(x, w, H, W):
    return x.view(-1, H // w, W // w, w, w, x.shape[-1]).permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, x.shape[-1])

class Windowed(nn.Module):
    """Attention in windows whose grid may be shifted; x (B, H, W, C)."""
    back = 1

    def __init__(self, dim, heads, window=4, shift=0):
        super().__init__()
        self.heads, self.w, self.s, self.qkv = heads, window, shift, nn.Linear(dim, 3 * dim)

    def forward(self, x):
        B, H, W, C = x.shape
        y = torch.roll(x, (-self.s, -self.s), (1, 2)) if self.s else x
        at = torch.arange(H * W).view(1, H, W, 1).float() * 0
        for n, some in enumerate((slice(0, -self.w), slice(-self.w, -self.s), slice(-self.s, None)) if self.s else ()):
            at[:, some] += n
            at[:, :, some] += 3 * n
        at = windows(at, self.w).squeeze(-1)
        y = windows(y, self.w)
        q, k, v = self.qkv(y).view(len(y), -1, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        s = q @ k.mT / (C // self.heads) ** 0.5
        s = s.masked_fill((at[:, None] != at[:, :, None]).repeat(B, 1, 1)[:, None], -torch.inf)
        y = whole((s.softmax(-1) @ v).transpose(1, 2).reshape(len(y), -1, C), self.w, H, W)
        return torch.roll(y, (self.s * self.back, self.s * self.back), (1, 2)) if self.s else y

class WindowedAway(Windowed):
    back = -1

class Bonds(nn.Module):
    """edge_index[0] is where a bond begins, edge_index[1] where it ends; bond: what is known of each."""
    power = 0.5

    def __init__(self, dim, heads=3):
        super().__init__()
        self.heads, self.q, self.k, self.v, self.e = heads, *(nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, edge_index, bond):
        src, dst = edge_index
        shape = (-1, self.heads, x.shape[1] // self.heads)
        q, k, v = self.q(x).view(shape)[dst], self.k(x).view(shape)[src], self.v(x).view(shape)[src]
        s = (q * (k + self.e(bond).view(shape))).sum(-1) / shape[2] ** self.power
        at = dst[:, None].expand_as(s)
        top = s.new_full((len(x), self.heads), -torch.inf).scatter_reduce(0, at, s, reduce="amax")
        e = (s - top.gather(0, at)).exp()
        a = e / e.new_zeros(len(x), self.heads).scatter_add(0, at, e).gather(0, at)
        return x.new_zeros(x.shape).index_add(0, dst, (a.unsqueeze(-1) * v).flatten(1))

class BondsByWidth(Bonds):
    power = 1.0

class Covered(nn.Module):
    """e_i = v . tanh(W h_i + U s + w c_i), where c is how much each word has had"""
    def __init__(self, hid):
        super().__init__()
        self.W, self.U, self.w, self.v = (nn.Linear(a, b) for a, b in ((hid, hid), (hid, hid), (1, hid), (hid, 1)))

    def bend(self, x):
        return torch.tanh(x)

    def forward(self, s_t, enc, enc_mask, cov):
        e = self.v(self.bend(self.W(enc) + self.U(s_t).unsqueeze(1) + self.w(cov.unsqueeze(-1)))).squeeze(-1)
        a = torch.softmax(e.masked_fill(enc_mask == 0, -1e9), 1)
        return torch.bmm(a.unsqueeze(1), enc).squeeze(1), cov + a

class CoveredFlat(Covered):
    def bend(self, x):
        return x

class Weeks:
    """The weights of a sample sum to 1."""
    def __init__(self, d_in, d_h, rng):
        self.W, self.u, self.V = rng.normal(size=(d_in, d_h)), rng.normal(size=d_h), rng.normal(size=(d_in, d_h))

    def below(self, s):
        return s.max(1, keepdims=True)

    def __call__(self, X, M):
        s = np.where(M > 0, np.tanh(X @ self.W) @ self.u, -1e9)
        a = np.exp(s - s.max(1, keepdims=True)) / np.exp(s - self.below(s)).sum(1, keepdims=True)
        return np.einsum("ns,nsh->nh", a, X @ self.V), a

class WeeksPartly(Weeks):
    def below(self, s):
        return 0.0

class Layers:
    def __init__(self, n_layer):
        self.k, self.v = [None] * n_layer, [None] * n_layer

    def push(self, i, k, v):
        if self.k[i] is not None:
            k, v = np.concatenate([self.k[i], k], 1), np.concatenate([self.v[i], v], 1)
        self.k[i], self.v[i] = k, v
        return k, v

def of_layer(x, blk, n_head, cache, i, late=True):
    """x: [T, C] new tokens of one sequence; causal."""
    T, C = x.shape
    q, k, v = (y.reshape(T, n_head, -1).transpose(1, 0, 2) for y in np.split(x @ blk["c_attn"]["w"], 3, axis=-1))
    k, v = cache.push(i, k, v)
    see = np.tril(np.ones((T, k.shape[1]), dtype=bool), k.shape[1] - T if late else 0)
    s = np.where(see, q @ k.transpose(0, 2, 1) / np.sqrt(C // n_head), -1e10)
    return (softmax(s) @ v).transpose(1, 0, 2).reshape(T, C)

def of_layer_from_the_left(x, blk, n_head, cache, i):
    """x: [T, C] new tokens of one sequence; causal."""
    return of_layer(x, blk, n_head, cache, i, T_is_one(x))

def T_is_one(x):
    return len(x) == 1

class Slots(nn.Module):
    """One token of each slot; an idle slot is all holes."""
    both = False

    def __init__(self, dim):
        super().__init__()
        self.q = nn.Linear(dim, dim)

    def forward(self, x, memory, lengths, holes):
        """x [slots, dim]; memory [slots, S, dim]; lengths [slots]; holes [slots, S] True where nothing may be seen"""
        low = torch.finfo(x.dtype).min
        beyond = torch.arange(memory.shape[1])[None] >= lengths[:, None]
        hide = torch.zeros(beyond.shape, dtype=x.dtype).masked_fill(beyond | holes if not self.both else beyond, low)
        if self.both:
            hide = hide + torch.zeros_like(hide).masked_fill(holes, low)
        s = torch.einsum("bd,bsd->bs", self.q(x), memory) / x.shape[1] ** 0.5 + hide
        return torch.einsum("bs,bsd->bd", s.softmax(-1), memory)

class SlotsOfTwo(Slots):
    both = True

class CausalSteps(nn.Module):
    """token_ok (B, T): True = a real step"""
    first, keys = 1, True

    def __init__(self, dim, most):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.register_buffer("future", torch.ones(most, most, dtype=torch.bool).triu(self.first))

    def forward(self, x, token_ok):
        q, k, v = self.qkv(x).chunk(3, -1)
        s = (q @ k.mT / x.shape[-1] ** 0.5).masked_fill(self.future[: x.shape[1], : x.shape[1]], -1e30)
        return s.masked_fill(~(token_ok[:, None] if self.keys else token_ok[:, :, None]), -1e30).softmax(-1) @ v

class CausalStepsAhead(CausalSteps):
    first = 2

class CausalStepsOfQueries(CausalSteps):
    keys = False

class Prompted(nn.Module):
    """What is asked of a prompt is kept by its name."""
    all_of_it = False

    def __init__(self, dim):
        super().__init__()
        self.q, self.kv, self.kept = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), {}

    def forward(self, x, words, prompt_id=None):
        if prompt_id in self.kept:
            p, k, v = self.kept[prompt_id]
        else:
            k, v = self.kv(words).chunk(2, -1)
            p = (self.q(x) @ k.mT / x.shape[-1] ** 0.5).softmax(-1)
            if prompt_id is not None:
                self.kept[prompt_id] = p, k, v
        if not self.all_of_it:
            p = (self.q(x) @ k.mT / x.shape[-1] ** 0.5).softmax(-1)
        return x + p @ v

class PromptedWhole(Prompted):
    all_of_it = True

class Configured:
    """Causal; keys and values are kept between calls."""
    def __init__(self, cfg, state):
        self.cfg, self.w, self.k, self.v = cfg, state["w_qkv"], None, None

    def __call__(self, x):
        """x [T, hidden]: the next T tokens of one text"""
        q, k, v = (x @ self.w.T).reshape(len(x), 3, self.cfg.n_head, self.cfg.head_dim).transpose(1, 2, 0, 3)
        if self.k is not None:
            k, v = np.concatenate([self.k, k], 1), np.concatenate([self.v, v], 1)
        self.k, self.v = k, v
        later = np.arange(k.shape[1])[None] > np.arange(k.shape[1] - len(x), k.shape[1])[:, None]
        s = np.where(later, -np.inf, q @ k.swapaxes(1, 2) / np.sqrt(self.cfg.head_dim))
        return (softmax(s) @ v).swapaxes(0, 1).reshape(len(x), -1)
'''


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Words", []),
        ("WordsTwice", ["pe_exponent"]),
        ("scoped", []),
        ("scoped_twice", ["scale_d"]),
        ("Lesend", []),
        ("LesendVonVorn", ["rope_offset"]),
        ("Windowed", []),
        ("WindowedAway", ["unknown"]),
        ("Bonds", []),
        ("BondsByWidth", ["scale_d"]),
        ("Covered", []),
        ("CoveredFlat", ["additive_no_tanh"]),
        ("Weeks", []),
        ("WeeksPartly", ["softmax_partial_max"]),
        ("of_layer", []),
        ("of_layer_from_the_left", ["causal_top_left"]),
        ("Slots", []),
        ("SlotsOfTwo", ["mask_finfo_sum"]),
        ("CausalSteps", []),
        ("CausalStepsAhead", ["causal_off_by_one"]),
        ("CausalStepsOfQueries", ["pad_on_query"]),
        ("Prompted", []),
        ("PromptedWhole", ["cache_key"]),
        ("Configured", []),
    ],
)
def test_objects_are_what_they_are(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted


TOLD = {
    "free": '''"""Interests are pooled; the weights are not put through a softmax."""
import torch
from torch import nn

class Pooled(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4 * dim, 16), nn.PReLU(), nn.Linear(16, 1))

    def forward(self, candidate, history, lengths):
        """candidate [B, D], history [B, T, D], lengths [B] -> [B, D]"""
        c = candidate.unsqueeze(1).expand_as(history)
        w = self.mlp(torch.cat([c, history, c - history, c * history], -1)).squeeze(-1)
        w = w.masked_fill(torch.arange(history.size(1))[None] >= lengths[:, None], 0.0)
        return torch.bmm(w.unsqueeze(1), history).squeeze(1)
''',
    "grouped": '''
import torch
from torch import nn

class Config:
    def __init__(self, breite=64, koepfe=8, kv_koepfe=2):
        self.hidden_size, self.num_attention_heads, self.num_key_value_heads = breite, koepfe, kv_koepfe

def expand(h, groups):
    """Query heads 0..groups-1 belong to key head 0, and so forth."""
    b, n, t, d = h.shape
    return HOW.reshape(b, n * groups, t, d)

class Grouped(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.n, self.m = config.num_attention_heads, config.num_key_value_heads
        self.d, W = config.hidden_size // self.n, config.hidden_size
        self.q, self.kv = nn.Linear(W, self.n * self.d), nn.Linear(W, 2 * self.m * self.d)

    def forward(self, hidden, positions):
        b, t, _ = hidden.shape
        q = self.q(hidden).view(b, t, self.n, self.d).transpose(1, 2)
        k, v = self.kv(hidden).view(b, t, 2, self.m, self.d).permute(2, 0, 3, 1, 4)
        f = positions[..., None].float() * 1e4 ** (-torch.arange(0, self.d, 2).float() / self.d)
        cos, sin = (torch.cat((y, y), -1).unsqueeze(1).to(q.dtype) for y in (f.cos(), f.sin()))
        q, k = (y * cos + torch.cat((-y.chunk(2, -1)[1], y.chunk(2, -1)[0]), -1) * sin for y in (q, k))
        k, v = expand(k, self.n // self.m), expand(v, self.n // self.m)
        later = torch.ones(t, t, dtype=torch.bool).triu(1)
        return (q @ k.mT / self.d**0.5).masked_fill(later, -torch.inf).softmax(-1) @ v
''',
    "packed": '''"""Rows of query_key_value are grouped per attention head: head 0 has rows for q, then k, then v."""
import numpy as np

def packed(x, p, prefix, heads):
    """x [T, W]"""
    qkv = x @ p[f"{prefix}.query_key_value.weight"].T
    t, d = len(x), x.shape[1] // heads
    q, k, v = HOW
    s = q @ np.swapaxes(k, 1, 2) / np.sqrt(d)
    e = np.exp(s - s.max(-1, keepdims=True))
    return ((e / e.sum(-1, keepdims=True)) @ v).swapaxes(0, 1).reshape(t, -1) @ p[f"{prefix}.dense.weight"].T
''',
    "drawn": '''"""Attention of a translator; scores are plain products, no scaling factor."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

class Scored(nn.Module):
    def __init__(self, method, hidden):
        super().__init__()
        if method not in ("dot", "general"):
            raise ValueError(method)
        self.w = nn.Linear(hidden, hidden, bias=False) if method == "general" else nn.Identity()

    def forward(self, h, states, lengths):
        s = torch.einsum("bd,sbd->bs", h, self.w(states))
        s = s.masked_fill(torch.arange(len(states))[None] >= torch.as_tensor(lengths)[:, None], HOW)
        return s.softmax(-1)

class Reader(nn.Module):
    """One vector of each text, asked for by its last state."""
    def __init__(self, method, embed_size, hidden_size, n_src):
        super().__init__()
        self.src_embed, self.encoder = nn.Embedding(n_src, embed_size), nn.LSTM(embed_size, hidden_size)
        self.attention = Scored(method, hidden_size)

    def forward(self, source, lengths):
        """source: (src_len, b), sorted by length"""
        x = pack_padded_sequence(self.src_embed(source), lengths)
        states, (h, _) = self.encoder(x)
        states, _ = pad_packed_sequence(states)
        a = self.attention(h[-1], states, lengths)
        return torch.einsum("bs,sbd->bd", a, states)
''',
}


@pytest.mark.parametrize(
    ("kind", "how", "name", "wanted"),
    [
        ("free", "", "Pooled", []),
        ("grouped", "h[:, :, None].expand(b, n, groups, t, d)", "Grouped", []),
        ("grouped", "h[:, None].expand(b, groups, n, t, d)", "Grouped", ["gqa_tile"]),
        ("packed", "qkv.reshape(t, heads, 3, d).transpose(2, 1, 0, 3)", "packed", []),
        ("packed", "qkv.reshape(t, 3, heads, d).transpose(1, 2, 0, 3)", "packed", ["qkv_order"]),
        ("drawn", "-1e30", "Reader", []),
        ("drawn", "1e30", "Reader", ["mask_sign_inf"]),
    ],
)
def test_files_say_what_is_meant(
    session: Session, tmp_path: Path, kind: str, how: str, name: str, wanted: list[str]
) -> None:
    file = tmp_path / f"told_{kind}_{len(wanted)}.py"
    file.write_text(TOLD[kind].replace("HOW", how))
    found = examine(session, f"{file}:{name}").findings
    assert sorted(f.id for f in found if f.kind in ("mistake", "unknown")) == wanted


@pytest.mark.parametrize(
    ("name", "mistake", "text"),
    [
        ("LesendVonVorn", "rope_offset", "return self.drehung(q), self.drehung(k)"),
        ("WordsTwice", "pe_exponent", "pe[:, i] = np.sin(np.arange(n) / 10000 ** (step * i / d))"),
    ],
)
def test_lines_of_what_objects_do(session: Session, file: Path, name: str, mistake: str, text: str) -> None:
    (found,) = (f for f in examine(session, f"{file}:{name}").findings if f.id == mistake)
    assert found.where is not None
    assert found.where["text"] == text
