import torch
from torch import nn
import torch.nn.functional as F


class BondGAT(nn.Module):
    """Graph attention (v2 scoring) over the bonds of a molecule batch.

    atoms: (N, f_in); bonds: (2, E) long, bonds[0] -> bonds[1]; bond_x: (E, f_bond).
    Output (N, heads * f_out). A self loop is added for every atom.
    """

    def __init__(self, f_in, f_out, f_bond, heads=2, p=0.1):
        super().__init__()
        self.h, self.f, self.p = heads, f_out, p
        self.left = nn.Linear(f_in, heads * f_out)
        self.right = nn.Linear(f_in, heads * f_out)
        self.edge = nn.Linear(f_bond, heads * f_out, bias=False)
        self.a = nn.Parameter(torch.randn(heads, f_out) * f_out ** -0.5)

    def forward(self, atoms, bonds, bond_x):
        n = atoms.size(0)
        loop = torch.arange(n, device=atoms.device)
        src, dst = torch.cat([bonds, torch.stack([loop, loop])], dim=1)
        e = torch.cat([bond_x, bond_x.new_zeros(n, bond_x.size(1))])
        xs = self.left(atoms).view(n, self.h, self.f)
        xd = self.right(atoms).view(n, self.h, self.f)
        m = xs[src] + xd[dst] + self.edge(e).view(-1, self.h, self.f)
        score = (F.leaky_relu(m, 0.2) * self.a).sum(-1)                      # E+N, h

        where = dst[:, None].expand_as(score)
        top = score.new_full((n, self.h), float("-inf")).scatter_reduce(0, where, score, "amax")
        w = torch.exp(score - top[dst])
        w = w / torch.zeros_like(top).scatter_add(0, where, w)[dst]
        w = F.dropout(w, self.p, training=self.training)

        out = torch.zeros_like(xs).index_add(0, dst, w.unsqueeze(-1) * xs[src])
        return out.flatten(1)
