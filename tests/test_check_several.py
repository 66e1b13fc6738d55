"""Several of a kind: heads that are stacked, sequences in one row, atoms of a molecule, distances in a grid."""

from __future__ import annotations

from swapped import right_and_wrong

SOURCE = '''
"""Attention of several of a kind."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Head(nn.Module):
    def __init__(self, dim, size):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, size, bias=False) for _ in range(3))
        self.root = size**0.5

    def forward(self, x):
        return self.q(x) @ self.k(x).transpose(1, 2) / self.root, self.v(x)


class Stacked(nn.Module):
    """x (batch, length, dim): position i spreads a weight of 1 over the positions 0 to i, in each head."""

    def __init__(self, dim, heads):
        super().__init__()
        self.parts = nn.ModuleList([Head(dim, dim // heads) for _ in range(heads)])
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        pairs = [part(x) for part in self.parts]
        s = torch.stack([one for one, _ in pairs], dim=1)
        v = torch.stack([one for _, one in pairs], dim=1)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        w = torch.softmax(s.masked_fill(later, float("-inf")), dim=-1)
        return x + self.out((w @ v).transpose(1, 2).flatten(2))


class Packed(nn.Module):
    """Clips that are packed into one row of frames: (T, dim), each of which attends within its own clip alone.

    starts (clips + 1,) int64 with starts[0] = 0, starts[-1] = T: clip c is frames[starts[c]:starts[c + 1]].
    """

    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, frames, starts):
        T, dim = frames.shape
        q, k, v = (f(frames).view(T, self.heads, -1).transpose(0, 1) for f in (self.q, self.k, self.v))
        clip = torch.searchsorted(starts[1:].contiguous(), torch.arange(T), right=True)
        s = q @ k.transpose(1, 2) / (dim // self.heads) ** 0.5
        s = s.masked_fill(clip[:, None] != clip[None, :], float("-inf"))
        return frames + self.o((s.softmax(-1) @ v).transpose(0, 1).reshape(T, dim))


class Tiles(nn.Module):
    """x [tiles, side * side, C], rows of pixels; a learned number for each head and offset of two pixels."""

    def __init__(self, C, heads, side):
        super().__init__()
        self.heads = heads
        self.table = nn.Parameter(torch.randn((2 * side - 1) ** 2, heads) * 0.5)
        y, x = torch.arange(side).repeat_interleave(side), torch.arange(side).repeat(side)
        down, right = (a[:, None] - a[None, :] + side - 1 for a in (y, x))
        self.register_buffer("index", down * (2 * side - 1) + right, persistent=False)
        self.qkv, self.proj = nn.Linear(C, 3 * C), nn.Linear(C, C)

    def forward(self, x):
        n, t, C = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        s = (q * (C // self.heads) ** -0.5) @ k.transpose(-2, -1) + self.table[self.index].permute(2, 0, 1)
        return self.proj((torch.softmax(s, dim=-1) @ v).transpose(1, 2).reshape(n, t, C))


class Molecules(nn.Module):
    """atoms [n_atoms, d], owner [n_atoms] = index of the molecule (any order), of n_mol molecules -> [n_mol, d].

    Each molecule asks its own atoms, whose weights sum to 1 (Set2Set, Vinyals et al. 2016).
    """

    def __init__(self, d, rounds=2):
        super().__init__()
        self.rounds, self.cell = rounds, nn.GRUCell(d, d)

    def forward(self, atoms, owner, n_mol):
        read = h = atoms.new_zeros(n_mol, atoms.shape[1])
        for _ in range(self.rounds):
            h = self.cell(read, h)
            energy = (atoms * h[owner]).sum(dim=1)
            top = atoms.new_full((n_mol,), float("-inf")).scatter_reduce(0, owner, energy.detach(), reduce="amax")
            w = (energy - top[owner]).exp()
            w = w / atoms.new_zeros(n_mol).index_add(0, owner, w)[owner]
            read = atoms.new_zeros(n_mol, atoms.shape[1]).index_add(0, owner, w[:, None] * atoms)
        return read


def matrices(H, D, d):
    """Every head has its own matrices of shape [D, d] for queries, keys and values."""
    rng = np.random.default_rng(7)
    w = {name: rng.normal(size=(H, D, d)) / np.sqrt(D) for name in ("q", "k", "v")}
    return w | {"o": rng.normal(size=(H * d, D)) / np.sqrt(H * d)}


def heads(x, y, w):
    """x [n, D] asks, y [m, D] answers."""
    parts = []
    for h in range(len(w["q"])):
        Q, K, V = x @ w["q"][h], y @ w["k"][h], y @ w["v"][h]
        S = Q @ K.T / np.sqrt(Q.shape[1])
        P = np.exp(S - S.max(1, keepdims=True))
        parts.append(P / P.sum(1, keepdims=True) @ V)
    return np.concatenate(parts, axis=1) @ w["o"]


class Columns(nn.Module):
    """The released checkpoint has one fused kernel, whose columns are grouped by head: first
    the query, key and value (columns of one head each, in this order) of head 0, then those of
    head 1, and so on.  x is [batch, residues, embed].
    """

    def __init__(self, embed, heads):
        super().__init__()
        self.heads = heads
        self.fused, self.dense = nn.Linear(embed, 3 * embed), nn.Linear(embed, embed)

    def forward(self, x):
        b, n, e = x.shape
        q, k, v = self.fused(x).reshape(b, n, self.heads, 3, -1).permute(3, 0, 2, 1, 4)
        w = (q @ k.mT / (e // self.heads) ** 0.5).softmax(-1)
        return self.dense((w @ v).transpose(1, 2).reshape(b, n, e))


def turn(x, places):
    angle = places[:, None] * 10000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)[:, None, :]
    found = np.empty_like(x)
    found[..., 0::2], found[..., 1::2] = z.real, z.imag
    return found


class Turning:
    """weights: Wq, Wk, Wv, Wo [D, D].  begin(x) reads a whole beginning [L, D] -> [L, D]; go_on(x) adds one word
    [D] -> [D], and gives what the last row of ``begin`` is for the longer text."""

    def __init__(self, weights, h):
        self.weights, self.h = weights, h

    def made(self, x, name):
        return (x @ self.weights[name]).reshape(len(x), self.h, -1)

    def mixed(self, q, K, V, start):
        s = np.einsum("ihd,jhd->hij", q, K) / np.sqrt(q.shape[-1])
        s = np.where(np.arange(len(K))[None, :] <= start + np.arange(len(q))[:, None], s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        return np.einsum("hij,jhd->ihd", p, V).reshape(len(q), -1) @ self.weights["Wo"]

    def begin(self, x):
        at = np.arange(len(x))
        q = turn(self.made(x, "Wq"), at)
        self.K, self.V = turn(self.made(x, "Wk"), at), self.made(x, "Wv")
        return self.mixed(q, self.K, self.V, 0)

    def go_on(self, x):
        x, n = x[None], len(self.K)
        here = n + np.arange(len(x))
        q = turn(self.made(x, "Wq"), here)
        self.K = np.concatenate([self.K, turn(self.made(x, "Wk"), here)])
        self.V = np.concatenate([self.V, self.made(x, "Wv")])
        return self.mixed(q, self.K, self.V, n)[0]


class Matcher:
    """Match a text against a snippet: softmax(Q K^T / sqrt(d)) over the tokens of the snippet with keep == 1;
    tokens with keep == 0 (comments, blank) get weight exactly 0.  At least one token is kept."""

    def __init__(self, dim, d=16):
        rng = np.random.RandomState(7)
        self.q, self.k, self.v = (rng.randn(dim, d) * dim**-0.5 for _ in range(3))

    def weights(self, query, snippet, keep):
        """query (m, dim), snippet (n, dim), keep (n,) of 0/1 -> (m, n)"""
        s = query @ self.q @ (snippet @ self.k).T / self.q.shape[1] ** 0.5
        s = np.where(np.asarray(keep)[None, :] > 0, s, -np.inf)
        e = np.exp(s - s.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def __call__(self, query, snippet, keep):
        return self.weights(query, snippet, keep) @ (snippet @ self.v)


class Addressing:
    """P holds matrices of the controller's output layer: key [c, M], beta [c], gate [c], gamma [c] (Graves 2014)."""

    def __init__(self, P):
        self.P = P

    def read(self, h, memory, before):
        """h [c], memory [N, M], before [N] (sums to 1): softmax of softplus(beta) times the cosines, mixed with the
        weights before by a gate and sharpened."""
        P = self.P
        key = np.tanh(h @ P["key"])
        cos = memory @ key / np.maximum(np.linalg.norm(memory, axis=1) * np.linalg.norm(key), 1e-8)
        z = np.logaddexp(0.0, h @ P["beta"]) * cos
        z = np.exp(z - z.max())
        g = 1 / (1 + np.exp(-(h @ P["gate"])))
        w = g * z / z.sum() + (1 - g) * before
        w = (w / w.max()) ** (1 + np.logaddexp(0.0, h @ P["gamma"]))
        return w / w.sum() @ memory


class Angles(nn.Module):
    """Similarities are cosines times exp(log_t), as in Swin v2.

    x [B, L, C]; pair_bias optional [heads, L, L]; pad optional [B, L] bool, True = filler, never a whole sample.
    """

    def __init__(self, C, heads):
        super().__init__()
        self.heads = heads
        self.log_t = nn.Parameter(torch.full((heads, 1, 1), 2.3))
        self.inp, self.out = nn.Linear(C, 3 * C), nn.Linear(C, C)

    def forward(self, x, pair_bias=None, pad=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).movedim(-2, 1) for t in self.inp(x).chunk(3, dim=-1))
        s = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * self.log_t.exp()
        if pair_bias is not None:
            s = s + pair_bias
        if pad is not None:
            s = s.masked_fill(pad[:, None, None, :], float("-inf"))
        return self.out((s.softmax(-1) @ v).movedim(1, -2).flatten(-2))


def beams(x, past_k, past_v, parent, Wq, Wk, Wv):
    """One step for all hypotheses of a beam search: x [beams, D] newest token of each; Wq, Wk, Wv [D, D];
    past_k, past_v [beams, n, D]; parent [beams] int: hypothesis i goes on with the past of parent[i].
    """
    q, k, v = x @ Wq, x @ Wk, x @ Wv
    keys = torch.cat([past_k[parent], k[:, None]], 1)
    values = torch.cat([past_v[parent], v[:, None]], 1)
    s = torch.einsum("bd,btd->bt", q, keys) / q.shape[-1] ** 0.5
    return torch.einsum("bt,btd->bd", s.softmax(-1), values)


class Rooms(nn.Module):
    """Block-local attention on a ring of L cells (L a multiple of room), in rooms shifted by half a room: the last and
    the first cell are neighbours.  x (B, L, dim) -> (B, L, dim): cell i plus what it read in its room."""

    def __init__(self, dim, heads, room=4):
        super().__init__()
        self.heads, self.room = heads, room
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, L, D = x.shape
        y = torch.roll(x, -(self.room // 2), dims=1)
        y = self.qkv(y).view(B, L // self.room, self.room, 3, self.heads, D // self.heads)
        q, k, v = y.permute(3, 0, 1, 4, 2, 5)
        w = (q @ k.transpose(-1, -2) / (D // self.heads) ** 0.5).softmax(dim=-1)
        y = (w @ v).transpose(2, 3).reshape(B, L, D)
        return x + self.out(torch.roll(y, self.room // 2, dims=1))


class Lines(nn.Module):
    """Feature maps (B, C, H, W): scaled dot-product attention along every row, then along every column."""

    def __init__(self, channels, heads=2):
        super().__init__()
        self.heads = heads
        self.ins = nn.ModuleList(nn.Linear(channels, 3 * channels, bias=False) for _ in range(2))

    def line(self, x, i):
        *lead, n, c = x.shape
        q, k, v = self.ins[i](x).view(*lead, n, 3, self.heads, c // self.heads).unbind(-3)
        q, k, v = (t.transpose(-3, -2) for t in (q, k, v))
        mixed = torch.softmax(q @ k.transpose(-2, -1) / np.sqrt(q.size(-1)), dim=-1) @ v
        return x + mixed.transpose(-3, -2).reshape(*lead, n, c)

    def forward(self, img):
        x = self.line(img.permute(0, 2, 3, 1), 0)
        return self.line(x.transpose(1, 2), 1).transpose(1, 2).permute(0, 3, 1, 2)


class Glow(nn.Module):
    """Each part has its own matrices; the results lie side by side.  x (lot, T, dim)"""

    def __init__(self, dim=32, glow=4):
        super().__init__()
        self.scale = (dim // glow) ** -0.5
        self.parts = nn.ModuleList(nn.ModuleList(nn.Linear(dim, dim // glow) for _ in range(3)) for _ in range(glow))

    def forward(self, x):
        found = []
        for q, k, v in self.parts:
            found.append((q(x) @ k(x).transpose(-2, -1) * self.scale).softmax(dim=-1) @ v(x))
        return torch.cat(found, dim=-1)


def worker(q, k, v):
    """q (H, d), k/v (n, H, d) with n >= 1 -> out (H, d), lse (H,)"""
    s = np.einsum("hd,nhd->hn", q, k) / np.sqrt(q.shape[-1])
    m = s.max(axis=1)
    p = np.exp(s - m[:, None])
    l = p.sum(axis=1)
    return np.einsum("hn,nhd->hd", p / l[:, None], v), m + np.log(l)


def workers(q, k, v, n_workers=4):
    ks = np.array_split(k, n_workers)
    vs = np.array_split(v, n_workers)
    parts = [worker(q, a, b) for a, b in zip(ks, vs) if len(a)]
    outs, sums = np.stack([o for o, _ in parts]), np.stack([z for _, z in parts])
    w = np.exp(sums - sums.max(axis=0))
    return (w[..., None] / w.sum(axis=0)[:, None] * outs).sum(axis=0)


class Visits(nn.Module):
    """inputs: [visits (B, N, F), days (B, N) time of each visit, non-decreasing]

    Visit i attends to the visits j <= i.  The logit loses rate * (days_i - days_j), so that old visits fade.
    """

    def __init__(self, units):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(units, units) for _ in range(3))
        self.rate = nn.Parameter(torch.zeros(1))

    def forward(self, inputs):
        x, days = inputs
        s = self.q(x) @ self.k(x).mT / x.shape[-1] ** 0.5
        s = s - nn.functional.softplus(self.rate) * (days[:, :, None] - days[:, None, :])
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(diagonal=1)
        return s.masked_fill(later, -1e30).softmax(-1) @ self.v(x)


class Bloco(nn.Module):
    """x: (B, L, dim); validos: (B, L) com 1 nas palavras e 0 no preenchimento, que não recebe nenhum peso."""

    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x, validos):
        notas = self.q(x) @ self.k(x).mT / x.shape[-1] ** 0.5
        notas = notas.masked_fill(validos[:, None, :] == 0, float("-inf"))
        return notas.softmax(-1) @ self.v(x)


class Twice(nn.Module):
    """x (B, T, 24): self-attention twice, scaled by the root of the width."""

    def __init__(self):
        super().__init__()
        self.a, self.b = (nn.ModuleList(nn.Linear(24, 24) for _ in range(3)) for _ in range(2))

    def forward(self, x):
        q, k, v = (f(x) for f in self.a)
        x = x + (q @ k.mT / 24**0.5).softmax(-1) @ v
        q, k, v = (f(x) for f in self.b)
        return x + (q @ k.mT * 24**-0.5).softmax(-1) @ v


class made:
    """A class may be called, and have, what it likes.  q, k, v (T, d)"""

    made = 3

    def __call__(self, q, k, v):
        s = q @ k.T / np.sqrt(q.shape[-1])
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v
'''
HEAD, CAUSAL = "softmax_axis_head_or_batch", "causal_off_by_one"
BOTH = [
    ("Stacked", ', float("-inf")), dim=-1)', ', float("-inf")), dim=1)', {HEAD: "dim=1"}),
    ("Stacked", ".triu(1)", ".triu(2)", {CAUSAL: "triu(2)"}),
    ("Packed", ", right=True)", ")", {"unknown": "searchsorted"}),
    ("Tiles", "down * (2 * side - 1) + right", "down * side + right", {"unknown": "self.table[self.index]"}),
    ("Molecules", ".index_add(0, owner, w)[owner]", ".index_add(0, owner, w).sum()", {"softmax_global": ""}),
    ("heads", 'y @ w["k"][h]', 'y @ w["q"][h]', {"shared_projection": 'y @ w["q"][h]'}),
    ("Columns", "self.heads, 3, -1).permute(3, 0, 2, 1, 4)", "3, self.heads, -1).permute(2, 0, 3, 1, 4)",
     {"qkv_order": "3, self.heads"}),
    ("Turning", "here = n + np.arange(len(x))", "here = np.arange(len(x))", {"rope_offset": "here = np.arange"}),
    ("Matcher", "s = np.where(np.asarray(keep)[None, :] > 0, s, -np.inf)", "s = s * np.asarray(keep)[None, :]",
     {"mask_times_scores": "keep"}),
    ("beams", "past_v[parent]", "past_v", {"unknown": "past_k[parent]"}),
    ("Rooms", "torch.roll(y, self.room // 2, dims=1)", "torch.roll(y, -(self.room // 2), dims=1)",
     {"unknown": "torch.roll(y"}),
    ("Lines", "q.size(-1)", "q.size(-2)", {"scale_seqlen": "q.size(-2)"}),
    ("Glow", "(dim // glow) ** -0.5", "glow ** -0.5", {"scale_num_heads": ""}),
    ("workers", "m + np.log(l)", "m / np.log(2) + np.log2(l)", {"lse_base2": ""}),
    ("Twice", "q @ k.mT * 24**-0.5", "q @ k.mT", {"scale_missing": "q @ k.mT).softmax"}),
    ("Twice", "q @ k.mT / 24**0.5", "q @ k.mT / 24", {"scale_d": "/ 24)"}),
    ("Bloco", 'notas.masked_fill(validos[:, None, :] == 0, float("-inf"))', "notas * validos[:, None, :]",
     {"mask_times_scores": "notas * validos"}),
]  # fmt: skip
# What was called wrong, or was not called.
RIGHT = ("Addressing", "Angles", "Visits", "made")


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
