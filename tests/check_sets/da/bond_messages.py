import torch
import torch.nn.functional as F
from torch import nn


class BondMessages(nn.Module):
    """Dynamic (v2 style) graph attention over a molecule given as a bond list.

    atoms: (n_atoms, d_in)
    bonds: (2, n_bonds) integer, row 0 is the sender, row 1 the receiver
    order: (n_bonds, d_bond) bond descriptors
    Every receiver normalises over its own incoming bonds.  An atom that
    receives nothing comes out as the bias.
    """

    def __init__(self, d_in=16, d_head=8, heads=4, d_bond=5):
        super().__init__()
        self.heads, self.d_head = heads, d_head
        self.sender = nn.Linear(d_in, heads * d_head, bias=False)
        self.receiver = nn.Linear(d_in, heads * d_head, bias=False)
        self.bond = nn.Linear(d_bond, heads * d_head, bias=False)
        self.a = nn.Parameter(torch.randn(heads, d_head) * 0.4)
        self.bias = nn.Parameter(torch.zeros(heads * d_head))

    def forward(self, atoms, bonds, order):
        n, (src, dst) = atoms.shape[0], bonds
        shape = (-1, self.heads, self.d_head)
        left = self.sender(atoms).view(shape)
        right = self.receiver(atoms).view(shape)
        mixed = left[src] + right[dst] + self.bond(order).view(shape)
        e = (F.leaky_relu(mixed, 0.2) * self.a).sum(-1)

        where = dst[:, None].expand_as(e)
        top = e.new_full((n, self.heads), float("-inf")).scatter_reduce(0, where, e, "amax")
        e = torch.exp(e - top[dst])
        total = e.new_zeros(n, self.heads).index_add(0, dst, e)
        alpha = e / total[dst]

        msg = alpha.unsqueeze(-1) * left[src]
        out = left.new_zeros(n, self.heads, self.d_head).index_add(0, dst, msg)
        return out.flatten(1) + self.bias
