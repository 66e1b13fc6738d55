"""What documentation words in its own way: words without their sort, pairs, times, one length of all samples."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from overt.check.report import CallError, Report
from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import numpy as np
import torch
from torch import nn


class Translator(nn.Module):
    """Décodeur avec attention générale de Luong."""

    def __init__(self, reglages):
        super().__init__()
        d, m = reglages["cachee"], reglages["mots"]
        self.table = nn.Embedding(reglages["lexique"], m)
        self.cell = nn.LSTMCell(m + d, d)
        self.W, self.mix = nn.Linear(d, d, bias=False), nn.Linear(2 * d, d, bias=False)

    def forward(self, entree, source, vide, etat):
        """
        entree: (B, T) mots;  source: (B, S, d) sorties de l'encodeur
        vide: (B, S) bool, True au-delà de la fin
        etat: paire (h, c), chacun (B, d)
        """
        h, c = etat
        read, found = torch.zeros_like(h), []
        for y in entree.unbind(1):
            h, c = self.cell(torch.cat((self.table(y), read), -1), (h, c))
            scores = torch.einsum("bd,bsd->bs", h, self.W(source)).masked_fill(vide, -torch.inf)
            context = torch.einsum("bs,bsd->bd", scores.softmax(1), source)
            read = torch.tanh(self.mix(torch.cat((context, h), -1)))
            found.append(read)
        return torch.stack(found, 1)


class TimeEmbedding(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.trend, self.waves = nn.Linear(1, 1), nn.Linear(1, d - 1)

    def forward(self, t):
        t = t.unsqueeze(-1)
        return torch.cat([self.trend(t), torch.sin(self.waves(t))], -1)


class Between(nn.Module):
    """Values at reference times, from those of times that were seen."""

    def __init__(self, channels, out, d=16):
        super().__init__()
        self.embed, self.q, self.k = TimeEmbedding(d), nn.Linear(d, d), nn.Linear(d, d)
        self.out = nn.Linear(channels, out)

    def forward(self, t_ref, t_obs, x, seen):
        """
        t_ref: (R,) reference times
        t_obs: (B, T) times of what was seen
        x:     (B, T, C) values
        seen:  (B, T) bool
        """
        q, k = self.q(self.embed(t_ref)), self.k(self.embed(t_obs))
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~seen[:, None], -torch.inf)
        return self.out(s.softmax(-1) @ x)


def newest(q, past_k, past_v, filled):
    """q (B, H, d): the newest token; past_k, past_v (B, G, S, d): of S slots the first `filled` hold something.

    Query heads 0 .. H/G-1 read group 0, the next ones group 1.
    """
    times = q.shape[1] // past_k.shape[1]
    k, v = past_k.repeat_interleave(times, 1), past_v.repeat_interleave(times, 1)
    s = torch.einsum("bhd,bhsd->bhs", q, k) / q.shape[-1] ** 0.5
    s = s.masked_fill(torch.arange(s.shape[-1]) >= filled, -torch.inf)
    return torch.einsum("bhs,bhsd->bhd", s.softmax(-1), v)


class Stories:
    """One hop of a key-value memory network.  Unused slots (used == 0) give nothing."""

    def __init__(self, vocab, dim):
        rng = np.random.default_rng(3)
        self.A, self.C, self.B = (rng.normal(0, 0.5, (vocab, dim)) for _ in range(3))

    def answer(self, facts, used, question):
        """facts (N, S, vocab) counts, used (N, S) 0/1, question (N, vocab) counts -> (N, dim)"""
        z = np.einsum("nd,nsd->ns", question @ self.B, facts @ self.A)
        z = np.where(used > 0, z, -np.inf)
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p = p / p.sum(axis=1, keepdims=True)
        return question @ self.B + np.einsum("ns,nsd->nd", p, facts @ self.C)


def lobby(q, k, v, may_see, heads, cap=3.0):
    """q, k, v (B, N, D); may_see (B, N, N) bool.  Scores are squashed softly into (-cap, cap)."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    s = q @ k.mT / q.shape[-1] ** 0.5
    s = cap * torch.tanh(s / cap)
    s = s.masked_fill(~may_see[:, None], -torch.inf)
    return (s.softmax(-1) @ v).transpose(1, 2).flatten(2)


def gauges(t_query, t_obs, level, good, hours=(3.0, 12.4, 25.0)):
    """Kernel attention over times, a head for each bandwidth; gauges without any good record come back as 0.

    t_query: (Q,) times; t_obs: (T,) times; level: (G, T) of each gauge; good: (G, T) bool, False where it is broken
    """
    hours = np.asarray(hours, t_query.dtype)
    away = (t_query[:, None] - t_obs[None, :]) / hours[:, None, None]
    logs = np.where(good[:, None, None, :], -0.5 * away[None] ** 2, -np.inf)
    top = logs.max(axis=-1, keepdims=True)
    powers = np.exp(logs - np.where(np.isfinite(top), top, 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    shares = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
    return np.einsum("gkqt,gt->gkq", shares, np.where(good, level, 0.0)).mean(1)


class Molecules:
    """Two graph convolutions and a mean over the atoms."""

    def __init__(self, fin, hidden, fout):
        rng = np.random.default_rng(1)
        self.W1, self.W2 = rng.normal(size=(fin, hidden)), rng.normal(size=(hidden, fout))

    def __call__(self, x, adj, present):
        """x (B, N, fin), adj (B, N, N) 0/1, present (B, N) 0/1 -> (B, fout)"""
        a = adj + np.eye(adj.shape[-1])
        root = a.sum(-1) ** -0.5
        p = root[..., :, None] * a * root[..., None, :]
        h = p @ np.maximum(p @ x @ self.W1, 0) @ self.W2
        return (h * present[..., None]).sum(1) / present.sum(1, keepdims=True)
'''
BOTH = [
    ("Translator", "read = torch.tanh(self.mix(torch.cat((context, h), -1)))",
     "read = self.mix(torch.cat((context, h), -1))", {"luong_no_tanh_out": "self.mix(torch"}),
    ("Between", " / q.shape[-1] ** 0.5).masked_fill(~seen", ").masked_fill(~seen", {"scale_missing": "q @ k.mT"}),
    ("newest", "past_k.repeat_interleave(times, 1)", "past_k.repeat(1, times, 1, 1)", {"gqa_tile": "past_k.repeat("}),
    ("Stories", "z = np.where(used > 0, z, -np.inf)", "z = z * used", {"mask_times_scores": "z * used"}),
    ("gauges", "np.where(good[:, None, None, :], -0.5", "np.where(~good[:, None, None, :], -0.5",
     {"mask_inverted": "np.where(~good"}),
    ("lobby", "    s = cap * torch.tanh(s / cap)\n", "", {"softcap_missing": "s = q @ k.mT"}),
]  # fmt: skip


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)


def test_neighbours_that_are_counted_are_not_attended_to(check: Callable[[str, str], Report]) -> None:
    with pytest.raises(CallError, match="no attention was found"):
        check("Molecules", SOURCE)
