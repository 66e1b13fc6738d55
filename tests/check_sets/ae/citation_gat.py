import torch
import torch.nn as nn
import torch.nn.functional as F


def edge_softmax(e, dst, n):
    """softmax of e (E, H) over the edges that share the same target node"""
    H = e.size(1)
    ix = dst.unsqueeze(1).expand(-1, H)
    top = e.new_full((n, H), float("-inf")).scatter_reduce(0, ix, e.detach(), reduce="amax")
    z = (e - top.gather(0, ix)).exp()
    tot = z.new_zeros(n, H).index_add(0, dst, z)
    return z / tot.gather(0, ix)


class GATConv(nn.Module):
    """Graph attention (v1). x: (N, F), edges: (2, E) rows source, target.

    Self loops are added here, so every node has a neighbour; the edge list has none.
    """

    def __init__(self, f_in, f_out, heads=4, slope=0.2, p=0.0):
        super().__init__()
        self.h, self.f = heads, f_out
        self.lin = nn.Linear(f_in, heads * f_out, bias=False)
        self.a_src = nn.Parameter(torch.empty(heads, f_out))
        self.a_dst = nn.Parameter(torch.empty(heads, f_out))
        self.slope, self.p = slope, p
        for w in (self.lin.weight, self.a_src, self.a_dst):
            nn.init.xavier_uniform_(w)

    def forward(self, x, edges):
        n = x.size(0)
        loop = torch.arange(n, device=x.device)
        src = torch.cat([edges[0], loop])
        dst = torch.cat([edges[1], loop])
        w = self.lin(x).view(n, self.h, self.f)
        e = (w * self.a_src).sum(-1)[src] + (w * self.a_dst).sum(-1)[dst]
        a = edge_softmax(F.leaky_relu(e, self.slope), dst, n)
        a = F.dropout(a, self.p, self.training)
        msg = a.unsqueeze(-1) * w[src]
        out = torch.zeros_like(w).index_add(0, dst, msg)
        return out.flatten(1)
