import torch
import torch.nn as nn
import torch.nn.functional as F
import math


class MAB(nn.Module):
    """
    multihead attention block on sets of atoms

    Q (b, n, dq), K (b, m, dk), absent (b, m) or None: True for atoms that aren't there.
    at least one atom per molecule is there
    """

    def __init__(self, dim_Q, dim_K, dim_V, num_heads):
        super(MAB, self).__init__()
        self.dim_V = dim_V
        self.num_heads = num_heads
        self.fc_q = nn.Linear(dim_Q, dim_V)
        self.fc_k = nn.Linear(dim_K, dim_V)
        self.fc_v = nn.Linear(dim_K, dim_V)
        self.fc_o = nn.Linear(dim_V, dim_V)

    def forward(self, Q, K, absent=None):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)

        dim_split = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(dim_split, 2), 0)
        K_ = torch.cat(K.split(dim_split, 2), 0)
        V_ = torch.cat(V.split(dim_split, 2), 0)

        E = Q_.bmm(K_.transpose(1, 2)) / math.sqrt(dim_split)
        if absent is not None:
            absent = absent.repeat_interleave(self.num_heads, dim=0)
            E = E.masked_fill(absent[:, None, :], -math.inf)
        A = torch.softmax(E, 2)

        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        return O + F.relu(self.fc_o(O))


class Molecule(nn.Module):
    def __init__(self, n_elements=20, dim=32, heads=4):
        super(Molecule, self).__init__()
        self.atom = nn.Embedding(n_elements + 1, dim, padding_idx=0)
        self.xyz = nn.Linear(3, dim)
        self.sab = MAB(dim, dim, dim, heads)
        self.seed = nn.Parameter(torch.randn(1, 1, dim))
        self.pma = MAB(dim, dim, dim, heads)
        self.fc = nn.Linear(dim, 1)

    def forward(self, z, xyz):
        absent = z == 0
        h = self.atom(z) + self.xyz(xyz)
        h = self.sab(h, h, absent)
        h = self.pma(self.seed.repeat(z.size(0), 1, 1), h, absent)
        return self.fc(h).flatten()
