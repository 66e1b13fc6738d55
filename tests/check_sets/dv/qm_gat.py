"""Graph attention regression on QM9 (dense batches)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphAttn(nn.Module):
    """GAT style layer on dense graphs.

    h   : [B, N, F] atom features
    adj : [B, N, N] 1.0 where j is a neighbour of i or i == j, else 0.0
    out : [B, N, F_out]

    score(i, j) = leaky_relu(a1 . Wh_i + a2 . Wh_j, 0.2); the weights of atom i are a softmax over
    its neighbours (incl. itself), atoms that are not neighbours get exactly zero weight.
    """

    def __init__(self, f_in=16, f_out=24):
        super().__init__()
        self.W = nn.Linear(f_in, f_out, bias=False)
        self.a1 = nn.Linear(f_out, 1, bias=False)
        self.a2 = nn.Linear(f_out, 1, bias=False)

    def forward(self, h, adj):
        Wh = self.W(h)
        e = self.a1(Wh) + self.a2(Wh).transpose(1, 2)            # [B, N, N]
        e = F.leaky_relu(e, 0.2)
        alpha = F.softmax(e * adj, dim=2)
        return F.elu(torch.bmm(alpha, Wh))


class QM9Net(nn.Module):
    """(h, adj, n_mask [B, N] 1.0 = atom) -> [B] energy"""

    def __init__(self, f_in=16, hid=24):
        super().__init__()
        self.l1, self.l2 = GraphAttn(f_in, hid), GraphAttn(hid, hid)
        self.out = nn.Linear(hid, 1)

    def forward(self, h, adj, n_mask):
        h = self.l2(self.l1(h, adj), adj)
        return (self.out(h).squeeze(-1) * n_mask).sum(1)
