"""Solubility regression on molecular graphs. No PyG needed, only index ops."""
import torch
from torch import nn
import torch.nn.functional as F


def segment_softmax(x, seg, n):
    """Softmax of x [E, H] inside each segment seg [E] (values 0..n-1)."""
    idx = seg[:, None].expand_as(x)
    mx = torch.full((n, x.shape[1]), float("-inf"), dtype=x.dtype, device=x.device)
    mx = mx.scatter_reduce(0, idx, x.detach(), reduce="amax")
    ex = torch.exp(x - mx[seg])
    z = torch.zeros(n, x.shape[1], dtype=x.dtype, device=x.device).index_add(0, seg, ex)
    return ex / z[seg]


class BondAwareGAT(nn.Module):
    """GATv2 layer with bond features.

    edge_index [2, E]: row 0 = sender, row 1 = receiver. Every receiver distributes one unit of
    weight over its incoming bonds; a self loop is added for each atom (bond feature 0), so
    isolated atoms see themselves. Additive scores, as in GATv2: a . leaky_relu(Ws x_s + Wr x_r + We e)
    """

    def __init__(self, f_in, f_bond, heads=4, f_head=8, slope=0.2):
        super().__init__()
        self.heads, self.f = heads, f_head
        self.send = nn.Linear(f_in, heads * f_head)
        self.recv = nn.Linear(f_in, heads * f_head)
        self.bond = nn.Linear(f_bond, heads * f_head, bias=False)
        self.a = nn.Parameter(torch.empty(heads, f_head))
        nn.init.xavier_uniform_(self.a)
        self.slope = slope

    def forward(self, x, edge_index, bond):
        n = x.size(0)
        loop = torch.arange(n, device=x.device)
        src = torch.cat([edge_index[0], loop])
        dst = torch.cat([edge_index[1], loop])
        bond = torch.cat([bond, bond.new_zeros(n, bond.size(1))])
        s = self.send(x).view(n, self.heads, self.f)
        r = self.recv(x).view(n, self.heads, self.f)
        e = self.bond(bond).view(-1, self.heads, self.f)
        z = F.leaky_relu(s[src] + r[dst] + e, self.slope)
        alpha = segment_softmax((z * self.a).sum(-1), dst, n)
        out = torch.zeros_like(s).index_add(0, dst, alpha.unsqueeze(-1) * s[src])
        return out.flatten(1), alpha


class SolubilityNet(nn.Module):
    def __init__(self, f_atom=16, f_bond=4, heads=4, f_head=8, layers=3):
        super().__init__()
        d = heads * f_head
        self.embed = nn.Linear(f_atom, d)
        self.convs = nn.ModuleList([BondAwareGAT(d, f_bond, heads, f_head) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(layers)])
        self.out = nn.Linear(d, 1)

    def forward(self, x, edge_index, bond, batch):
        h = self.embed(x)
        for conv, norm in zip(self.convs, self.norms):
            h = norm(h + F.elu(conv(h, edge_index, bond)[0]))
        g = int(batch.max()) + 1
        pooled = h.new_zeros(g, h.size(1)).index_add(0, batch, h)
        count = h.new_zeros(g).index_add(0, batch, h.new_ones(h.size(0)))
        return self.out(pooled / count[:, None]).squeeze(-1)


def both_ways(bonds, feats):
    e = torch.tensor(bonds).t()
    return torch.cat([e, e.flip(0)], 1), torch.cat([feats, feats])


if __name__ == "__main__":
    ei, ef = both_ways([(0, 1), (1, 2), (2, 3)], torch.rand(3, 4))
    print(SolubilityNet()(torch.rand(5, 16), ei, ef, torch.tensor([0, 0, 0, 0, 1])))
