"""Route construction for the courier game (attention model, Kool et al. 2019).

The encoder embeds the stops once; the decoder picks one stop per step. `visited` is True for
stops that were served already and may be neither glimpsed nor chosen.
"""
import math
from typing import NamedTuple

import torch
from torch import nn


class Fixed(NamedTuple):
    node_embeddings: torch.Tensor    # [B, N, D]
    graph_context: torch.Tensor      # [B, 1, D]
    glimpse_key: torch.Tensor        # [H, B, N, D/H]
    glimpse_val: torch.Tensor        # [H, B, N, D/H]
    logit_key: torch.Tensor          # [B, N, D]


class GlimpseDecoder(nn.Module):
    def __init__(self, dim=128, n_heads=8, tanh_clipping=10.0):
        super().__init__()
        assert dim % n_heads == 0
        self.dim, self.n_heads, self.clip = dim, n_heads, tanh_clipping
        self.project_nodes = nn.Linear(dim, 3 * dim, bias=False)
        self.project_graph = nn.Linear(dim, dim, bias=False)
        self.project_step = nn.Linear(2 * dim, dim, bias=False)
        self.project_out = nn.Linear(dim, dim, bias=False)
        self.start = nn.Parameter(torch.empty(2 * dim).uniform_(-1, 1))

    def _make_heads(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.n_heads, -1).permute(2, 0, 1, 3)

    def precompute(self, emb) -> Fixed:
        gk, gv, lk = self.project_nodes(emb).chunk(3, dim=-1)
        return Fixed(emb, self.project_graph(emb.mean(1, keepdim=True)),
                     self._make_heads(gk), self._make_heads(gv), lk.contiguous())

    def _query(self, fixed, first, last):
        b = fixed.node_embeddings.size(0)
        if first is None:
            ctx = self.start.expand(b, 1, -1)
        else:
            pick = torch.stack([first, last], 1)[..., None].expand(-1, -1, self.dim)
            ctx = fixed.node_embeddings.gather(1, pick).view(b, 1, 2 * self.dim)
        return fixed.graph_context + self.project_step(ctx)

    def step(self, fixed: Fixed, visited, first=None, last=None):
        """log-probabilities [B, N] of the next stop"""
        q = self._query(fixed, first, last)
        b, _, d = q.shape
        dk = d // self.n_heads
        q = q.view(b, 1, self.n_heads, dk).permute(2, 0, 1, 3)                # H, B, 1, dk

        compat = torch.matmul(q, fixed.glimpse_key.transpose(-2, -1)) / math.sqrt(dk)
        compat = compat.masked_fill(visited[None, :, None, :], -math.inf)
        heads = torch.matmul(torch.softmax(compat, dim=-1), fixed.glimpse_val)
        glimpse = self.project_out(heads.permute(1, 2, 0, 3).reshape(b, 1, d))

        # one head over the full width
        logits = torch.matmul(glimpse, fixed.logit_key.transpose(-2, -1)).squeeze(1) / math.sqrt(d)
        if self.clip > 0:
            logits = self.clip * torch.tanh(logits)
        logits = logits.masked_fill(visited, -math.inf)
        return torch.log_softmax(logits, dim=-1)

    def forward(self, emb, greedy=True):
        b, n, _ = emb.shape
        fixed = self.precompute(emb)
        visited = torch.zeros(b, n, dtype=torch.bool, device=emb.device)
        first = last = None
        tour, ll = [], 0.0
        for _ in range(n):
            logp = self.step(fixed, visited, first, last)
            nxt = logp.argmax(-1) if greedy else torch.multinomial(logp.exp(), 1).squeeze(1)
            ll = ll + logp.gather(1, nxt[:, None]).squeeze(1)
            visited = visited.scatter(1, nxt[:, None], True)
            first = nxt if first is None else first
            last = nxt
            tour.append(nxt)
        return torch.stack(tour, 1), ll


class StopEncoder(nn.Module):
    def __init__(self, dim=128, heads=8, layers=3):
        super().__init__()
        self.inp = nn.Linear(2, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, xy):
        return self.enc(self.inp(xy))


def tour_length(xy, tour):
    d = xy.gather(1, tour[..., None].expand(-1, -1, 2))
    return (d - d.roll(-1, dims=1)).norm(dim=-1).sum(1)


if __name__ == "__main__":
    torch.manual_seed(0)
    xy = torch.rand(4, 20, 2)
    enc, dec = StopEncoder(), GlimpseDecoder()
    tour, ll = dec(enc(xy))
    print(tour_length(xy, tour), ll)
