"""Attention model for routing problems (Kool, van Hoof & Welling 2019): one decoding step.

graph_mean: [B, D], nodes: [B, N, D] from the encoder, visited: bool [B, N] (True = may not be chosen).
Glimpse: multi-head attention of the context over the nodes that are free; pointer: single head,
logits clipped to C tanh(.), visited nodes -inf.
"""
import math
import torch
import torch.nn as nn


class TourDecoder(nn.Module):
    def __init__(self, D, n_heads=8, clip=10.0):
        super().__init__()
        self.H, self.clip = n_heads, clip
        self.node_proj = nn.Linear(D, 3 * D, bias=False)     # glimpse key, glimpse value, logit key
        self.fixed = nn.Linear(D, D, bias=False)
        self.step_ctx = nn.Linear(2 * D, D, bias=False)
        self.out = nn.Linear(D, D, bias=False)
        self.placeholder = nn.Parameter(torch.empty(2 * D).uniform_(-1, 1))

    def prepare(self, nodes):
        gk, gv, lk = self.node_proj(nodes).chunk(3, -1)
        B, N, D = gk.shape
        mh = lambda t: t.view(B, N, self.H, D // self.H).permute(2, 0, 1, 3)     # H, B, N, d
        return mh(gk), mh(gv), lk, self.fixed(nodes.mean(1))

    def step(self, prepared, first_last, visited):
        """first_last [B, 2D] (or None at the start) -> log-probabilities [B, N]"""
        gk, gv, lk, graph = prepared
        H, B, N, d = gk.shape
        ctx = self.placeholder.expand(B, -1) if first_last is None else first_last
        q = graph + self.step_ctx(ctx)                                            # B, D
        qh = q.view(B, H, 1, d).transpose(0, 1)
        compat = (qh @ gk.transpose(-1, -2)) / math.sqrt(d)                       # H, B, 1, N
        compat = compat.masked_fill(visited[None, :, None, :], -math.inf)
        heads = torch.softmax(compat, -1) @ gv                                    # H, B, 1, d
        glimpse = self.out(heads.permute(1, 2, 0, 3).reshape(B, H * d))
        logits = (lk @ glimpse.unsqueeze(-1)).squeeze(-1) / math.sqrt(lk.shape[-1])
        logits = self.clip * torch.tanh(logits)
        return torch.log_softmax(logits.masked_fill(visited, -math.inf), -1)


def greedy_tour(decoder, nodes):
    B, N, D = nodes.shape
    prep = decoder.prepare(nodes)
    visited = torch.zeros(B, N, dtype=torch.bool)
    rows = torch.arange(B)
    tour, first, ctx, total = [], None, None, 0.0
    for _ in range(N):
        lp = decoder.step(prep, ctx, visited)
        a = lp.argmax(-1)
        total = total + lp[rows, a]
        visited = visited.index_put((rows, a), torch.tensor(True))
        tour.append(a)
        first = nodes[rows, a] if first is None else first
        ctx = torch.cat([first, nodes[rows, a]], -1)
    return torch.stack(tour, 1), total


def tour_length(xy, tour):
    p = xy.gather(1, tour[..., None].expand(-1, -1, 2))
    return (p - p.roll(-1, 1)).norm(dim=-1).sum(1)
