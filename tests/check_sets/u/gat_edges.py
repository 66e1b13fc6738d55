import torch
import torch.nn as nn
import torch.nn.functional as F


def scatter_softmax(e, dst, n):
    # e: (E, H), dst: (E,)
    idx = dst[:, None].expand_as(e)
    top = torch.full((n, e.size(1)), float("-inf"), dtype=e.dtype, device=e.device)
    top = top.scatter_reduce(0, idx, e, reduce="amax")
    e = torch.exp(e - top[dst])
    z = torch.zeros(n, e.size(1), dtype=e.dtype, device=e.device).index_add(0, dst, e)
    return e / z[dst]


class GATLayer(nn.Module):
    def __init__(self, in_dim, out_dim, heads=2, slope=0.2):
        super().__init__()
        self.h, self.c, self.slope = heads, out_dim, slope
        self.lin = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.a_src = nn.Parameter(torch.randn(heads, out_dim) * 0.3)
        self.a_dst = nn.Parameter(torch.randn(heads, out_dim) * 0.3)
        self.bias = nn.Parameter(torch.zeros(heads * out_dim))

    def forward(self, x, edge_index):
        # x: (N, in_dim); edge_index: (2, E), messages go from row 0 to row 1
        n = x.size(0)
        loops = torch.arange(n, device=x.device)
        src = torch.cat([edge_index[0], loops])
        dst = torch.cat([edge_index[1], loops])
        z = self.lin(x).view(n, self.h, self.c)
        e = (z * self.a_src).sum(-1)[src] + (z * self.a_dst).sum(-1)[dst]
        alpha = scatter_softmax(F.leaky_relu(e, self.slope), dst, n)
        out = torch.zeros_like(z).index_add(0, dst, alpha[..., None] * z[src])
        return out.reshape(n, -1) + self.bias


class GAT(nn.Module):
    def __init__(self, in_dim=8, hidden=6, classes=3, heads=2):
        super().__init__()
        self.l1 = GATLayer(in_dim, hidden, heads)
        self.l2 = GATLayer(heads * hidden, classes, 1)

    def forward(self, x, edge_index):
        return self.l2(F.elu(self.l1(x, edge_index)), edge_index)
