import torch
from torch import nn


class GATv2Conv(nn.Module):
    """Graph attention, "How attentive are graph attention networks?" (Brody et al. 2022).

        e_ij = a^T LeakyReLU(W_dst x_i + W_src x_j),   alpha_ij = softmax over the in-neighbours j of i

    The bending comes before ``a``, so there is no scale, and nothing is masked: what is no edge is never scored.

    x: (N, in_dim); edge_index: (2, E), row 0 the sources j, row 1 the targets i.  A node without an incoming edge
    hears itself alone, since self loops are added.
    """

    def __init__(self, in_dim, out_dim, heads=2, slope=0.2):
        super().__init__()
        self.heads, self.out_dim = heads, out_dim
        self.lin_src = nn.Linear(in_dim, heads * out_dim)
        self.lin_dst = nn.Linear(in_dim, heads * out_dim)
        self.att = nn.Parameter(torch.randn(heads, out_dim) * out_dim**-0.5)
        self.act = nn.LeakyReLU(slope)

    def forward(self, x, edge_index):
        n = x.shape[0]
        loops = torch.arange(n, device=x.device)
        src = torch.cat([edge_index[0], loops])
        dst = torch.cat([edge_index[1], loops])
        xs = self.lin_src(x).view(n, self.heads, self.out_dim)
        xd = self.lin_dst(x).view(n, self.heads, self.out_dim)

        e = (self.act(xs[src] + xd[dst]) * self.att).sum(-1)  # (E + N, heads)
        idx = dst[:, None].expand_as(e)
        top = torch.full((n, self.heads), float("-inf"), dtype=x.dtype, device=x.device)
        top = top.scatter_reduce(0, idx, e, reduce="amax")
        e = torch.exp(e - top[dst])
        z = torch.zeros(n, self.heads, dtype=x.dtype, device=x.device).index_add(0, dst, e)
        alpha = e / z[dst]
        out = torch.zeros_like(xs).index_add(0, dst, alpha[..., None] * xs[src])
        return out.flatten(1)
