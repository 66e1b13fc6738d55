"""Chart-to-text generator: decoder self attention with a step cache and beam re-ordering.

The rows of every cached tensor follow the beams: after a beam was chosen, row r of the cache holds the
history of hypothesis r.
"""
import torch
from torch import nn


class CachedDecoderAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_o = nn.Linear(dim, dim, bias=False)
        self.past_k = None
        self.past_v = None

    def reset(self):
        self.past_k = self.past_v = None

    def select(self, rows):
        if self.past_k is not None:
            self.past_k = self.past_k[rows]

    def forward(self, x):
        """x [R, 1, dim], one new token for each hypothesis"""
        r = x.size(0)
        q = self.to_q(x).view(r, 1, self.heads, self.hd).transpose(1, 2)
        k, v = self.to_kv(x).view(r, 1, 2, self.heads, self.hd).unbind(2)
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        if self.past_k is not None:
            k = torch.cat([self.past_k, k], dim=2)
            v = torch.cat([self.past_v, v], dim=2)
        self.past_k, self.past_v = k, v
        w = torch.softmax(q @ k.transpose(-1, -2) / self.hd ** 0.5, dim=-1)
        return self.to_o((w @ v).transpose(1, 2).reshape(r, 1, -1))


class ChartWriter(nn.Module):
    def __init__(self, vocab, dim=24, heads=3, max_len=40):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(max_len, dim)
        self.att = CachedDecoderAttention(dim, heads)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.head = nn.Linear(dim, vocab)

    def step(self, last, t, chart):
        x = self.tok(last)[:, None] + self.pos.weight[t] + chart[:, None]
        x = x + self.att(x)
        return self.head(x + self.ff(x))[:, 0].log_softmax(-1)

    @torch.no_grad()
    def write(self, chart, beam=4, steps=10, bos=1):
        b = chart.size(0)
        self.att.reset()
        chart = chart.repeat_interleave(beam, 0)
        out = torch.full((b * beam, 1), bos, dtype=torch.long)
        score = torch.tensor([0.0] + [-1e9] * (beam - 1)).repeat(b, 1)
        for t in range(steps):
            lp = self.step(out[:, -1], t, chart)
            flat = (score.unsqueeze(-1) + lp.view(b, beam, -1)).flatten(1)
            score, idx = flat.topk(beam, 1)
            rows = (torch.arange(b)[:, None] * beam + idx // lp.size(-1)).flatten()
            self.att.select(rows)
            out = torch.cat([out[rows], (idx % lp.size(-1)).view(-1, 1)], 1)
        return out.view(b, beam, -1)[:, 0]
