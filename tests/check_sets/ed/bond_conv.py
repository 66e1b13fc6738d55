"""Message passing on molecules as edge lists, with per-bond keys and values.

x          (N, in)    atoms of the whole batch, one under the other
bonds      (2, E)     long; bonds[0] sends, bonds[1] receives (store both directions)
bond_attr  (E, b)     one row per directed bond
-> (N, H*d)

For atom i and head h

    a_ij = softmax over the bonds j->i of  q_i . (k_j + e_ij) / sqrt(d)
    out_i = skip(x_i) + sum_j a_ij (v_j + e_ij)

An atom that receives nothing keeps only its skip term.
"""
import torch
from torch import nn


class BondConv(nn.Module):
    def __init__(self, inp, b, heads=4, d=16):
        super().__init__()
        self.heads, self.d = heads, d
        self.q = nn.Linear(inp, heads * d)
        self.k = nn.Linear(inp, heads * d)
        self.v = nn.Linear(inp, heads * d)
        self.e = nn.Linear(b, heads * d, bias=False)
        self.skip = nn.Linear(inp, heads * d)

    def forward(self, x, bonds, bond_attr):
        n, (src, dst) = x.size(0), bonds
        q, k, v = (f(x).view(n, self.heads, self.d) for f in (self.q, self.k, self.v))
        e = self.e(bond_attr).view(-1, self.heads, self.d)

        s = (q[dst] * (k[src] + e)).sum(-1) / self.d ** 0.5            # (E, H)
        where = dst[:, None].expand_as(s)
        top = torch.full((n, self.heads), float("-inf"), dtype=s.dtype, device=s.device)
        top = top.scatter_reduce(0, where, s.detach(), "amax")
        s = torch.exp(s - top[dst])
        total = torch.zeros_like(top).index_add(0, dst, s)
        a = s / total[dst]

        msg = a.unsqueeze(-1) * (v[src] + e)
        out = torch.zeros_like(v).index_add(0, dst, msg)
        return self.skip(x) + out.flatten(1)


class Solubility(nn.Module):
    """mol (N,) long: which molecule each atom belongs to, 0..M-1.  -> (M,)"""

    def __init__(self, inp, b, depth=3, heads=4, d=16):
        super().__init__()
        w = heads * d
        self.layers = nn.ModuleList(
            BondConv(inp if i == 0 else w, b, heads, d) for i in range(depth)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(w) for _ in range(depth))
        self.out = nn.Linear(w, 1)

    def forward(self, x, bonds, bond_attr, mol):
        for f, norm in zip(self.layers, self.norms):
            x = torch.relu(norm(f(x, bonds, bond_attr)))
        m = int(mol.max()) + 1
        pooled = x.new_zeros(m, x.size(1)).index_add(0, mol, x)
        return self.out(pooled).squeeze(-1)
