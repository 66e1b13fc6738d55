"""E(n)-equivariant graph attention on an edge list.

Edges go from src to dst; node i = dst gathers from its incoming edges.

    logit_e   = <q_dst, k_src> / sqrt(d) + MLP(|x_dst - x_src|^2)     per head
    a_e       = softmax over the edges with the same dst
    h_i'      = h_i + W_o concat_heads sum_e a_e v_src
    x_i'      = x_i + sum_e mean_heads(a_e) * phi(h_dst, h_src, dist) * (x_dst - x_src)

Turning or moving x turns or moves x' the same way and leaves h' as it is.
Nodes without incoming edges keep h and x.

h (N, F), x (N, 3), edge_index (2, E) long with rows (src, dst).
"""
import torch
from torch import nn


def edge_softmax(logit: torch.Tensor, dst: torch.Tensor, n: int) -> torch.Tensor:
    """logit (E, H) -> weights (E, H) that sum to 1 over the edges of each dst."""
    index = dst[:, None].expand_as(logit)
    peak = logit.new_full((n, logit.size(1)), float("-inf"))
    peak = peak.scatter_reduce(0, index, logit, reduce="amax")
    e = (logit - peak[dst]).exp()
    total = torch.zeros_like(peak).index_add(0, dst, e)
    return e / total[dst]


class EGATLayer(nn.Module):
    def __init__(self, F_: int, heads: int = 4):
        super().__init__()
        self.heads, self.d = heads, F_ // heads
        self.q, self.k, self.v = (nn.Linear(F_, F_, bias=False) for _ in range(3))
        self.dist = nn.Sequential(nn.Linear(1, 16), nn.SiLU(), nn.Linear(16, heads))
        self.phi = nn.Sequential(nn.Linear(2 * F_ + 1, F_), nn.SiLU(), nn.Linear(F_, 1))
        self.out = nn.Linear(F_, F_, bias=False)

    def forward(self, h, x, edge_index):
        src, dst = edge_index
        n = h.size(0)
        split = lambda t: t.view(n, self.heads, self.d)
        q, k, v = split(self.q(h)), split(self.k(h)), split(self.v(h))

        diff = x[dst] - x[src]
        sq = diff.pow(2).sum(-1, keepdim=True)
        logit = (q[dst] * k[src]).sum(-1) / self.d ** 0.5 + self.dist(sq)
        a = edge_softmax(logit, dst, n)

        msg = (a.unsqueeze(-1) * v[src]).flatten(1)
        h_new = h + self.out(torch.zeros_like(h).index_add(0, dst, msg))
        step = self.phi(torch.cat((h[dst], h[src], sq), -1)) * a.mean(1, keepdim=True)
        x_new = x + torch.zeros_like(x).index_add(0, dst, step * diff)
        return h_new, x_new
