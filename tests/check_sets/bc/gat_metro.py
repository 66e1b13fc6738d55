'''Graph attention on the metro network: predict boarding counts per station.

Edges are (src, dst); every station gathers from its incoming edges. Stations
without an incoming edge get zeros (plus bias).
'''
import torch
from torch import nn
import torch.nn.functional as F


def add_loops(edge_index, n):
    loop = torch.arange(n, device=edge_index.device)
    return torch.cat([edge_index, torch.stack([loop, loop])], dim=1)


def segment_softmax(score, seg, n):
    """score [E, H]; softmax among the edges with the same seg id."""
    H = score.size(1)
    ix = seg[:, None].expand(-1, H)
    top = score.new_full((n, H), float('-inf')).scatter_reduce(0, ix, score, 'amax')
    e = (score - top[seg]).exp()
    z = score.new_zeros(n, H).index_add(0, seg, e)
    return e / z[seg].clamp_min(1e-16)


class EdgeAttentionConv(nn.Module):
    def __init__(self, fin, fout, heads=4, concat=True, slope=0.2):
        super().__init__()
        self.heads, self.fout, self.concat, self.slope = heads, fout, concat, slope
        self.lin = nn.Linear(fin, heads * fout, bias=False)
        self.a_src = nn.Parameter(torch.empty(heads, fout))
        self.a_dst = nn.Parameter(torch.empty(heads, fout))
        self.bias = nn.Parameter(torch.zeros(heads * fout if concat else fout))
        for p in (self.a_src, self.a_dst):
            nn.init.xavier_uniform_(p)

    def forward(self, x, edge_index):
        n = x.size(0)
        src, dst = edge_index
        h = self.lin(x).view(n, self.heads, self.fout)
        # a^T [h_i || h_j] splits in two dot products
        s = (h * self.a_src).sum(-1)[src] + (h * self.a_dst).sum(-1)[dst]
        alpha = segment_softmax(F.leaky_relu(s, self.slope), dst, n)
        out = h.new_zeros(n, self.heads, self.fout)
        out = out.index_add(0, dst, alpha[..., None] * h[src])
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias


class BoardingNet(nn.Module):
    def __init__(self, fin=6, hid=8):
        super().__init__()
        self.c1 = EdgeAttentionConv(fin, hid)
        self.c2 = EdgeAttentionConv(4 * hid, 1, heads=2, concat=False)

    def forward(self, x, ei):
        ei = add_loops(ei, len(x))
        return F.softplus(self.c2(F.elu(self.c1(x, ei)), ei)).squeeze(-1)
