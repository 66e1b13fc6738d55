"""Graph attention layer (Velickovic et al.) on an edge list, plain torch, no PyG.

forward(x, edge_index)
    x           (N, in_dim)
    edge_index  (2, E) int64; edge_index[0] = source j, edge_index[1] = target i.  Self loops
                are added here; do not put them in yourself.  No edge is listed twice.
returns (N, heads * out_dim) with the heads concatenated.

    e_ij  = LeakyReLU(a_dst . W x_i + a_src . W x_j)
    alpha = softmax of e_ij over all edges that end in i
    x_i'  = sum_j alpha_ij W x_j + b
"""
import torch
import torch.nn as nn


class GATConv(nn.Module):
    def __init__(self, in_dim, out_dim, heads=1, slope=0.2):
        super().__init__()
        self.h, self.d = heads, out_dim
        self.lin = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.a_src = nn.Parameter(torch.empty(heads, out_dim))
        self.a_dst = nn.Parameter(torch.empty(heads, out_dim))
        self.bias = nn.Parameter(torch.zeros(heads * out_dim))
        self.act = nn.LeakyReLU(slope)
        for p in (self.lin.weight, self.a_src, self.a_dst):
            nn.init.xavier_uniform_(p)

    def forward(self, x, edge_index):
        n = x.size(0)
        loops = torch.arange(n, device=x.device)
        src = torch.cat([edge_index[0], loops])
        dst = torch.cat([edge_index[1], loops])

        z = self.lin(x).view(n, self.h, self.d)
        score = (z * self.a_src).sum(-1)[src] + (z * self.a_dst).sum(-1)[dst]
        e = self.act(score)                                            # E, h

        where = dst[:, None].expand_as(e)
        top = e.new_full((n, self.h), float("-inf"))
        top = top.scatter_reduce(0, where, e.detach(), reduce="amax")
        num = (e - top[dst]).exp()
        den = num.new_zeros(n, self.h).index_add(0, dst, num)
        alpha = num / den[dst]

        msg = alpha.unsqueeze(-1) * z[src]
        out = z.new_zeros(n, self.h, self.d).index_add(0, dst, msg)
        return out.flatten(1) + self.bias
