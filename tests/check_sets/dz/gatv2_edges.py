"""GATv2 convolution on an edge list, without torch_scatter.

    x      (N, F_in)
    edges  (2, E) long; column (s, t): message from node s to node t
    w      (E, F_edge) edge features
    out    (N, heads, F_out)

Self-loops are added here (edge features 0).  For every head

    logit(s->t) = a . LeakyReLU( W_s x_s + W_t x_t + W_e w )

and the weights are a softmax over all edges that END in the same node t.
"""
import torch
from torch import nn
import torch.nn.functional as F


def segment_softmax(z, seg, n):
    """z (E, H), seg (E,): softmax within the rows that share a segment number."""
    idx = seg[:, None].expand_as(z)
    top = torch.full((n, z.size(1)), -torch.inf, dtype=z.dtype, device=z.device)
    top = top.scatter_reduce(0, idx, z.detach(), reduce="amax")
    ez = (z - top[seg]).exp()
    total = torch.zeros(n, z.size(1), dtype=z.dtype, device=z.device).index_add(0, seg, ez)
    return ez / total[seg]


class GATv2Conv(nn.Module):
    def __init__(self, f_in, f_out, f_edge, heads=2, slope=0.2):
        super().__init__()
        self.H, self.F, self.slope = heads, f_out, slope
        self.src = nn.Linear(f_in, heads * f_out)
        self.dst = nn.Linear(f_in, heads * f_out)
        self.edge = nn.Linear(f_edge, heads * f_out, bias=False)
        self.a = nn.Parameter(torch.randn(heads, f_out) * f_out ** -0.5)

    def forward(self, x, edges, w):
        N = x.size(0)
        loops = torch.arange(N, device=x.device)
        s = torch.cat([edges[0], loops])
        t = torch.cat([edges[1], loops])
        w = torch.cat([w, w.new_zeros(N, w.size(1))])

        xs = self.src(x).view(N, self.H, self.F)
        xt = self.dst(x).view(N, self.H, self.F)
        m = F.leaky_relu(xs[s] + xt[t] + self.edge(w).view(-1, self.H, self.F), self.slope)
        alpha = segment_softmax((m * self.a).sum(-1), t, N)
        return xs.new_zeros(N, self.H, self.F).index_add(0, t, alpha.unsqueeze(-1) * xs[s])
