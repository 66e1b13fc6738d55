"""GAT on citation graphs without any graph library.

python citation_gat.py            # toy run
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class EdgeAttentionConv(nn.Module):
    """
    One graph attention layer working on an edge list.

    Shapes:
        x          : (N, in_features)
        edge_index : (2, E), row 0 = source j, row 1 = target i, message goes j -> i
    Coefficient of an edge:
        e_ij = LeakyReLU( a_src . W x_j + a_dst . W x_i ),  normalised over the edges that end in i
    Self loops are added here (do not add them yourself).
    """

    SRC, DST = 0, 1

    def __init__(self, in_features, out_features, heads=8, concat=True, slope=0.2, p=0.6):
        super().__init__()
        self.h, self.f, self.concat = heads, out_features, concat
        self.proj = nn.Linear(in_features, heads * out_features, bias=False)
        self.a_src = nn.Parameter(torch.empty(1, heads, out_features))
        self.a_dst = nn.Parameter(torch.empty(1, heads, out_features))
        self.bias = nn.Parameter(torch.zeros(heads * out_features if concat else out_features))
        self.act = nn.LeakyReLU(slope)
        self.drop = nn.Dropout(p)
        nn.init.xavier_uniform_(self.proj.weight)
        nn.init.xavier_uniform_(self.a_src)
        nn.init.xavier_uniform_(self.a_dst)

    def forward(self, x, edge_index):
        N = x.size(0)
        loops = torch.arange(N, device=x.device).expand(2, N)
        edge_index = torch.cat([edge_index, loops], dim=1)
        src, dst = edge_index[self.SRC], edge_index[self.DST]

        z = self.proj(self.drop(x)).view(N, self.h, self.f)
        # the dot with a concatenated vector is a sum of two dots -> per node scalars first
        s = (z * self.a_src).sum(-1)                         # N, h
        t = (z * self.a_dst).sum(-1)
        e = self.act(s.index_select(0, src) + t.index_select(0, dst))   # E, h

        alpha = self.drop(self.edge_softmax(e, dst, N))
        out = torch.zeros(N, self.h, self.f, dtype=z.dtype, device=x.device)
        out.index_add_(0, dst, z.index_select(0, src) * alpha.unsqueeze(-1))
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias

    @staticmethod
    def edge_softmax(e, dst, N):
        idx = dst.unsqueeze(-1).expand_as(e)
        top = torch.full((N, e.size(1)), float("-inf"), dtype=e.dtype, device=e.device)
        top = top.scatter_reduce(0, idx, e.detach(), reduce="amax")
        w = (e - top.gather(0, idx)).exp()
        den = torch.zeros_like(top).scatter_add(0, idx, w)
        return w / den.gather(0, idx)


class GAT(nn.Module):
    def __init__(self, n_feat, n_class, hidden=8, heads=8):
        super().__init__()
        self.c1 = EdgeAttentionConv(n_feat, hidden, heads)
        self.c2 = EdgeAttentionConv(hidden * heads, n_class, 1, concat=False)

    def forward(self, x, edge_index):
        return F.log_softmax(self.c2(F.elu(self.c1(x, edge_index)), edge_index), dim=-1)


if __name__ == "__main__":
    torch.manual_seed(0)
    g = torch.tensor([[0, 1, 2, 3, 3, 4], [1, 2, 0, 0, 4, 3]])
    net = GAT(10, 3).eval()
    print(net(torch.randn(5, 10), g).exp().sum(1))
