"""What lengths hide, and what documentation says of them: rules of the checker, each by a small candidate, in pairs."""

from collections.abc import Callable

import pytest

Mistakes = Callable[[str], list[str]]

SOURCE = '''
import math

import numpy as np
import torch
from torch import nn


def _turned(x, positions):
    rates = 100.0 ** (-torch.arange(0, x.shape[-1], 2, dtype=x.dtype) / x.shape[-1])
    angles = (positions.to(x.dtype)[..., None] * rates).repeat(1, 1, 2)[:, None]
    a, b = x.chunk(2, -1)
    return x * angles.cos() + torch.cat([-b, a], -1) * angles.sin()


class Numbered(nn.Module):
    """Each sample has positions of its own (B, L).  Scores are multiplied by what a field says, which no name tells."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        n, d = c.num_heads, c.head_dim
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(c.hidden_size, n * d, bias=False) for _ in range(3))

    def forward(self, x, positions):
        B, L, _ = x.shape
        projected = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        q, k, v = (y.view(B, L, self.c.num_heads, -1).transpose(1, 2) for y in projected)
        q, k = _turned(q, positions), _turned(k, positions)
        return ((q @ k.mT * self.factor()).softmax(-1) @ v).transpose(1, 2).flatten(2)

    def factor(self):
        return self.c.pre_attn_scalar ** -0.5


class NumberedWide(Numbered):
    def factor(self):
        return self.c.hidden_size ** -0.5


class Binder(nn.Module):
    """Slots compete for pixels (Locatello et al. 2020).

    feats   [B, N, D]
    valid   optional bool [B, N], True where the pixel exists (padded images)
    """

    def __init__(self, n_slots, dim):
        super().__init__()
        self.mu = nn.Parameter(torch.randn(1, n_slots, dim))
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.gru = nn.GRUCell(dim, dim)

    def forward(self, feats, valid=None):
        k, v, slots = self.to_k(feats), self.to_v(feats), self.mu.expand(len(feats), -1, -1)
        for _ in range(2):
            dots = torch.einsum("bkd,bnd->bkn", self.to_q(slots), k) * k.shape[-1] ** -0.5
            weights = dots.softmax(1) + 1e-8
            if valid is not None:
                weights = weights * self.kept(valid)[:, None].to(weights.dtype)
            weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-8)
            found = torch.einsum("bkn,bnd->bkd", weights, v)
            slots = self.gru(found.flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
        return slots

    def kept(self, valid):
        return valid


class BinderInverted(Binder):
    def kept(self, valid):
        return ~valid


class Reads(nn.Module):
    """``memory`` switches to cross-attention (never causal)."""

    def __init__(self, d_model):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))

    def forward(self, x, memory=None):
        memory = x if memory is None else memory
        return (self.q(x) @ self.k(memory).mT / math.sqrt(x.shape[-1])).softmax(-1) @ self.v(memory)


def _angles(rot, T, together):
    rates = 100.0 ** (-np.arange(0, rot, 2) / rot)
    angles = np.outer(np.arange(T), rates)
    return np.concatenate([angles, angles], -1) if together else np.repeat(angles, 2, -1)


def _half(w, x, n_head, together):
    T, D = x.shape
    q, k, v = ((x @ w[name]).reshape(T, n_head, -1).transpose(1, 0, 2) for name in ("q", "k", "v"))
    rot = q.shape[-1] // 2
    angles = _angles(rot, T, together)

    def turn(y):
        a, rest = y[..., :rot], y[..., rot:]
        other = np.concatenate([-a[..., rot // 2:], a[..., :rot // 2]], -1)
        return np.concatenate([a * np.cos(angles) + other * np.sin(angles), rest], -1)

    s = turn(q) @ turn(k).transpose(0, 2, 1) / math.sqrt(q.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(T, D)


def half_turned(w, x, n_head):
    """Half of each head is turned.  w: q, k, v (D, D); x (T, D)."""
    return _half(w, x, n_head, True)


def half_mixed(w, x, n_head):
    """Half of each head is turned.  w: q, k, v (D, D); x (T, D)."""
    return _half(w, x, n_head, False)


def _newest(x, W, n_head, past, shift):
    n, D = x.shape
    q, k, v = (np.stack(np.split(x @ W[name], n_head, axis=-1)) for name in ("q", "k", "v"))
    if past is not None:
        k, v = np.concatenate([past[0], k], axis=1), np.concatenate([past[1], v], axis=1)
    m = k.shape[1]
    s = q @ np.swapaxes(k, 1, 2) / math.sqrt(D // n_head)
    s = np.where(np.tril(np.ones((n, m), bool), m - n if shift else 0), s, -1e10)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.concatenate(list(p / p.sum(-1, keepdims=True) @ v), axis=-1), (k, v)


def newest(x, W, n_head, past=None):
    """x [n, D] the newest tokens. past: None or (k, v), each [n_head, n_past, d].  Causal.

    W: q, k, v (D, D).
    """
    return _newest(x, W, n_head, past, True)


def newest_first(x, W, n_head, past=None):
    """x [n, D] the newest tokens. past: None or (k, v), each [n_head, n_past, d].  Causal.

    W: q, k, v (D, D).
    """
    return _newest(x, W, n_head, past, False)


class Lines(nn.Module):
    """Scaled dot-product self-attention along the rows of an image x [B, C, H, W].

    cloud_free: [B, H, W], 1 = usable pixel, 0 = under clouds, which must not be read.
    """

    def __init__(self, ch, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Conv2d(ch, ch, 1, bias=False) for _ in range(3))

    def lines(self, t):
        B, C, H, W = t.shape
        return t.view(B, self.heads, C // self.heads, H, W).permute(0, 3, 1, 4, 2).flatten(0, 1)

    def forward(self, x, cloud_free=None):
        B, C, H, W = x.shape
        q, k, v = (self.lines(f(x)) for f in (self.q, self.k, self.v))
        s = q @ k.mT / self.under(q)
        if cloud_free is not None:
            s = self.hidden(s, cloud_free.reshape(-1, 1, 1, W))
        out = (s.softmax(-1) @ v).view(B, H, self.heads, W, -1).permute(0, 2, 4, 1, 3)
        return out.reshape(B, C, H, W)

    def under(self, q):
        return q.shape[-1] ** 0.5

    def hidden(self, s, free):
        return s.masked_fill(free == 0, float("-inf"))


class LinesTwice(Lines):
    def under(self, q):
        return q.shape[2] ** 0.5

    def hidden(self, s, free):
        return s * free.to(s.dtype)


class Scroll(nn.Module):
    """Relative positions (Dai et al. 2019), causal.  w: [len, batch, dim], time first."""

    def __init__(self, n_head, d_model):
        super().__init__()
        self.n = n_head
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.r = nn.Linear(d_model, d_model, bias=False)
        self.u, self.t = (nn.Parameter(torch.randn(n_head, d_model // n_head)) for _ in range(2))

    def forward(self, w):
        T, B, D = w.shape
        q, k, v = (one.view(T, B, self.n, -1) for one in self.qkv(w).chunk(3, -1))
        angles = torch.outer(self.distances(T).to(w.dtype), 100.0 ** (-torch.arange(0, D, 2, dtype=w.dtype) / D))
        r = self.r(torch.cat([angles.sin(), angles.cos()], -1)).view(T, self.n, -1)
        far = torch.einsum("ibnd,jnd->ijbn", q + self.t, r)
        far = torch.cat([torch.zeros_like(far[:, :1]), far], 1).view(T + 1, T, B, self.n)[1:].view_as(far)
        s = (torch.einsum("ibnd,jbnd->ijbn", q + self.u, k) + far) * q.shape[-1] ** -0.5
        later = torch.ones(T, T, dtype=torch.bool).triu(1)[..., None, None]
        p = s.masked_fill(later, float("-inf")).softmax(1)
        return torch.einsum("ijbn,jbnd->ibnd", p, v).reshape(T, B, D)

    def distances(self, T):
        return torch.arange(T - 1, -1, -1)


class ScrollUpwards(Scroll):
    def distances(self, T):
        return torch.arange(T)


def _kept(q, k, v, seen):
    return torch.where(seen, q @ k.mT / math.sqrt(q.shape[-1]), -1e30).softmax(-1) @ v


def kept(q, k, v, valid_lens):
    """q (B, T, D), k and v (B, S, D), valid_lens (B,)"""
    return _kept(q, k, v, torch.arange(k.shape[1]) < valid_lens.reshape(-1, 1, 1))


def kept_behind(q, k, v, valid_lens):
    """q (B, T, D), k and v (B, S, D), valid_lens (B,)"""
    return _kept(q, k, v, torch.arange(k.shape[1]) <= valid_lens.reshape(-1, 1, 1))


def _softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def each(e, context, W_q, W_k, W_v):
    """e (d,) attends to context (L, d)"""
    q = W_q @ e
    return _softmax(np.array([q @ (W_k @ z) for z in context]) / math.sqrt(len(q))) @ (context @ W_v.T)


def each_larger(e, context, W_q, W_k, W_v):
    """e (d,) attends to context (L, d)"""
    q = W_q @ e
    return _softmax(np.array([q @ (W_k @ z) for z in context]) * math.sqrt(len(q))) @ (context @ W_v.T)


def _row(q, k, v):
    s = k @ q / math.sqrt(len(q))
    w = np.exp(s - s.max())
    return w @ v, w.sum()


def rows(q, k, v):
    """Each query (T, D) sees itself and what came before."""
    both = [_row(q[t], k[: t + 1], v[: t + 1]) for t in range(len(q))]
    return np.stack([mixed / total for mixed, total in both])


def rows_larger(q, k, v):
    """Each query (T, D) sees itself and what came before."""
    both = [_row(q[t], k[: t + 1], v[: t + 1]) for t in range(len(q))]
    return np.stack([mixed * total for mixed, total in both])


def _numbers(query, keys, values, by):
    scores = [sum(float(a) * float(b) for a, b in zip(query, key)) / len(query) ** 0.5 for key in keys]
    weights = [math.exp(s - max(scores)) for s in scores]
    return [by(sum(w * float(row[j]) for w, row in zip(weights, values)), sum(weights)) for j in range(len(values[0]))]


def numbers(query, keys, values):
    """query: d numbers, keys: n lists of d, values: n lists of m"""
    return _numbers(query, keys, values, lambda a, b: a / b)


def numbers_larger(query, keys, values):
    """query: d numbers, keys: n lists of d, values: n lists of m"""
    return _numbers(query, keys, values, lambda a, b: a * b)
'''


@pytest.mark.parametrize(("name", "wanted"), [("Numbered", []), ("NumberedWide", ["scale_dmodel"])])
def test_a_number_that_no_name_tells_is_no_width_of_all(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted


@pytest.mark.parametrize(("name", "wanted"), [("Binder", []), ("BinderInverted", ["mask_inverted"])])
def test_what_slots_share_may_be_hidden(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted


def test_what_is_never_causal_promises_nothing(mistakes: Mistakes) -> None:
    assert mistakes("Reads") == []


@pytest.mark.parametrize(("name", "wanted"), [("half_turned", []), ("half_mixed", ["rope_layout"])])
def test_of_one_pair_no_layout_is_seen(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted


@pytest.mark.parametrize(("name", "wanted"), [("newest", []), ("newest_first", ["causal_top_left"])])
def test_tokens_with_a_width_are_vectors(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted


@pytest.mark.parametrize(
    ("name", "wanted"), [("Lines", []), ("LinesTwice", ["mask_times_scores", "scale_seqlen"])]
)  # fmt: skip
def test_lines_of_an_image_have_lengths_of_their_own(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted


@pytest.mark.parametrize(("name", "wanted"), [("Scroll", []), ("ScrollUpwards", ["unknown"])])
def test_a_distance_is_one_wherever_a_sequence_ends(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted


@pytest.mark.parametrize(("name", "wanted"), [("kept", []), ("kept_behind", ["unknown"])])
def test_the_position_behind_a_length_is_hidden(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("each", []),
        ("each_larger", ["scale_inverted"]),
        ("rows", []),
        ("rows_larger", ["unknown"]),
        ("numbers", []),
        ("numbers_larger", ["unknown"]),
    ],
)
def test_what_loops_come_to_is_judged_whole(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted
