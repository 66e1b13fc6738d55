# Graph notebook 4: GAT without torch_geometric
import torch
import torch.nn as nn
import torch.nn.functional as F


def edge_softmax(e, dst, n):
    """e (E, H) logits, dst (E,) target node: normalise over the edges that enter a node."""
    idx = dst[:, None].expand_as(e)
    top = e.new_full((n, e.size(1)), float("-inf")).scatter_reduce(0, idx, e, "amax")
    w = (e - top[dst]).exp()
    z = torch.zeros(n, e.size(1), dtype=e.dtype, device=e.device).scatter_add(0, idx, w)
    return w / z[dst]


class GATLayer(nn.Module):
    def __init__(self, fin, fout, heads=4, p=0.3):
        super().__init__()
        self.h, self.f, self.p = heads, fout, p
        self.lin = nn.Linear(fin, heads * fout, bias=False)
        self.a_src = nn.Parameter(torch.randn(heads, fout) * 0.3)
        self.a_dst = nn.Parameter(torch.randn(heads, fout) * 0.3)
        self.bias = nn.Parameter(torch.zeros(heads * fout))

    def forward(self, x, edge_index):
        """x (N, fin), edge_index (2, E) with rows source, target -> (N, heads * fout)"""
        n = x.size(0)
        loops = torch.arange(n, device=x.device)
        src = torch.cat([edge_index[0], loops])
        dst = torch.cat([edge_index[1], loops])
        z = self.lin(x).view(n, self.h, self.f)
        s, t = (z * self.a_src).sum(-1), (z * self.a_dst).sum(-1)
        e = F.leaky_relu(s[src] + t[dst], 0.2)
        alpha = F.dropout(edge_softmax(e, dst, n), self.p, self.training)
        msg = z[src] * alpha[..., None]
        out = torch.zeros_like(z).index_add(0, dst, msg)
        return out.reshape(n, -1) + self.bias
