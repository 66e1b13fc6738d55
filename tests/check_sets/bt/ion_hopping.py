# -*- coding: utf-8 -*-
# Перескоки ионов лития в твёрдом электролите.
# Узлы -- позиции в решётке, рёбра -- возможные перескоки (направленные: откуда -> куда).
# Внимание динамическое, как в GATv2: a^T LeakyReLU(W_l x_i + W_r x_j + W_e e_ij),
# нормировка -- по всем рёбрам, ВХОДЯЩИМ в узел i.
import torch
from torch import nn


def segment_softmax(s, seg, n):
    """softmax внутри групп: s [E, H], seg [E] -- номер группы, n групп."""
    idx = seg.unsqueeze(1).expand_as(s)
    m = s.new_full((n, s.size(1)), float('-inf')).scatter_reduce(0, idx, s, 'amax')
    e = (s - m[seg]).exp()
    z = s.new_zeros(n, s.size(1)).index_add(0, seg, e)
    return e / z[seg]


class RadialBasis(nn.Module):
    def __init__(self, k=8, r_max=6.0):
        super().__init__()
        self.register_buffer('c', torch.linspace(0.5, r_max, k))
        self.width = r_max / k

    def forward(self, r):
        return torch.exp(-((r[:, None] - self.c) / self.width) ** 2)


class HopAttention(nn.Module):
    """x [N, D], edges [2, E] (src, dst), e [E, De] -> [N, D]; узел без входящих рёбер получает bias."""

    def __init__(self, D, De, heads=2, slope=0.2):
        super().__init__()
        self.h, self.c = heads, D // heads
        self.W_dst = nn.Linear(D, D)
        self.W_src = nn.Linear(D, D)
        self.W_e = nn.Linear(De, D, bias=False)
        self.a = nn.Parameter(torch.empty(heads, self.c))
        self.bias = nn.Parameter(torch.zeros(D))
        self.act = nn.LeakyReLU(slope)
        nn.init.xavier_uniform_(self.a)

    def forward(self, x, edges, e):
        N = x.size(0)
        src, dst = edges
        v = self.W_src(x).view(N, self.h, self.c)
        z = self.W_dst(x).view(N, self.h, self.c)[dst] + v[src] + self.W_e(e).view(-1, self.h, self.c)
        alpha = segment_softmax((self.act(z) * self.a).sum(-1), dst, N)     # [E, h]
        out = x.new_zeros(N, self.h, self.c).index_add(0, dst, alpha.unsqueeze(-1) * v[src])
        return out.reshape(N, -1) + self.bias


class Lattice:
    """Периодическая ячейка; только то, что нужно для списка рёбер."""

    def __init__(self, frac, cell):
        self.frac, self.cell = frac, cell

    def edges(self, r_cut):
        d = self.frac[:, None] - self.frac[None]
        d = (d - d.round()) @ self.cell          # ближайший образ
        r = d.norm(dim=-1)
        dst, src = torch.nonzero((r < r_cut) & (r > 1e-6), as_tuple=True)
        return torch.stack([src, dst]), r[dst, src]


class BarrierNet(nn.Module):
    """Барьер (эВ) для каждого ребра."""

    def __init__(self, n_species=12, D=16):
        super().__init__()
        self.emb = nn.Embedding(n_species, D)
        self.rbf = RadialBasis()
        self.layers = nn.ModuleList(HopAttention(D, 8) for _ in range(2))
        self.out = nn.Sequential(nn.Linear(2 * D + 8, D), nn.SiLU(), nn.Linear(D, 1), nn.Softplus())

    def forward(self, species, lattice, r_cut=4.0):
        edges, r = lattice.edges(r_cut)
        e = self.rbf(r)
        x = self.emb(species)
        for layer in self.layers:
            x = x + torch.nn.functional.elu(layer(x, edges, e))
        return edges, self.out(torch.cat([x[edges[0]], x[edges[1]], e], -1)).squeeze(-1)


if __name__ == '__main__':
    lat = Lattice(torch.rand(9, 3), 7.0 * torch.eye(3))
    ed, b = BarrierNet()(torch.randint(0, 12, (9,)), lat)
    print(ed.shape, b[:5])
