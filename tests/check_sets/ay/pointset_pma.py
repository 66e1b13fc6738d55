"""Set Transformer parts (Lee et al. 2019) for point sets of varying size."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MAB(nn.Module):
    """Multihead attention block: queries Q [B, n, dq] look at K [B, m, dk].

    Heads are cut out of the feature axis and stacked on the batch axis, head by head:
    [h0 of all sets, h1 of all sets, ...]. `absent` [B, m] bool marks rows of K that are
    only filler.
    """

    def __init__(self, dim_Q, dim_K, dim_V, num_heads, ln=False):
        super().__init__()
        self.dim_V = dim_V
        self.num_heads = num_heads
        self.fc_q = nn.Linear(dim_Q, dim_V)
        self.fc_k = nn.Linear(dim_K, dim_V)
        self.fc_v = nn.Linear(dim_K, dim_V)
        self.fc_o = nn.Linear(dim_V, dim_V)
        self.ln0 = nn.LayerNorm(dim_V) if ln else nn.Identity()
        self.ln1 = nn.LayerNorm(dim_V) if ln else nn.Identity()

    def forward(self, Q, K, absent=None):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        dim_split = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(dim_split, 2), 0)
        K_ = torch.cat(K.split(dim_split, 2), 0)
        V_ = torch.cat(V.split(dim_split, 2), 0)

        E = Q_.bmm(K_.transpose(1, 2)) / math.sqrt(dim_split)
        if absent is not None:
            E = E.masked_fill(absent.repeat(self.num_heads, 1).unsqueeze(1), -1e30)
        A = torch.softmax(E, 2)
        O = torch.cat(A.bmm(V_).split(Q.size(0), 0), 2)
        O = self.ln0(Q + O)
        return self.ln1(O + F.relu(self.fc_o(O)))


class SAB(nn.Module):
    def __init__(self, dim_in, dim_out, num_heads, ln=False):
        super().__init__()
        self.mab = MAB(dim_in, dim_in, dim_out, num_heads, ln=ln)

    def forward(self, X, absent=None):
        return self.mab(X, X, absent)


class ISAB(nn.Module):
    """Induced set attention, O(n * m)."""

    def __init__(self, dim_in, dim_out, num_heads, num_inds, ln=False):
        super().__init__()
        self.I = nn.Parameter(torch.empty(1, num_inds, dim_out))
        nn.init.xavier_uniform_(self.I)
        self.mab0 = MAB(dim_out, dim_in, dim_out, num_heads, ln=ln)
        self.mab1 = MAB(dim_in, dim_out, dim_out, num_heads, ln=ln)

    def forward(self, X, absent=None):
        H = self.mab0(self.I.repeat(X.size(0), 1, 1), X, absent)
        return self.mab1(X, H)


class PMA(nn.Module):
    def __init__(self, dim, num_heads, num_seeds, ln=False):
        super().__init__()
        self.S = nn.Parameter(torch.empty(1, num_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, num_heads, ln=ln)

    def forward(self, X, absent=None):
        return self.mab(self.S.repeat(X.size(0), 1, 1), X, absent)


class PointSetNet(nn.Module):
    """Sets of points [B, n, 3] -> class logits; `count` [B] real points per set."""

    def __init__(self, n_classes=40, dim=128, heads=4, inds=16):
        super().__init__()
        self.enc1 = ISAB(3, dim, heads, inds, ln=True)
        self.enc2 = ISAB(dim, dim, heads, inds, ln=True)
        self.pool = PMA(dim, heads, 1)
        self.dec = SAB(dim, dim, heads)
        self.out = nn.Linear(dim, n_classes)

    def forward(self, pts, count=None):
        absent = None
        if count is not None:
            absent = torch.arange(pts.shape[1], device=pts.device)[None] >= count[:, None]
        x = self.enc1(pts, absent)
        x = self.enc2(x, absent)
        x = self.dec(self.pool(x, absent))
        return self.out(x).squeeze(1)


def normalise(pts):
    pts = pts - pts.mean(1, keepdim=True)
    return pts / pts.norm(dim=-1).amax(1)[:, None, None].clamp(min=1e-6)


def jitter(pts, sigma=0.01, clip=0.05):
    return pts + (sigma * torch.randn_like(pts)).clamp(-clip, clip)


def random_rotation_z(n, gen=None):
    a = torch.rand(n, generator=gen) * 2 * math.pi
    c, s, o = a.cos(), a.sin(), torch.zeros(n)
    return torch.stack([c, -s, o, s, c, o, o, o, torch.ones(n)], 1).view(n, 3, 3)


if __name__ == "__main__":
    net = PointSetNet()
    print(net(normalise(torch.randn(2, 100, 3)), torch.tensor([100, 60])).shape)
