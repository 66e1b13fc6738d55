"""Point cloud classification: induced-set blocks and pooling by attention."""
import argparse
import math

import torch
import torch.nn as nn


class MAB(nn.Module):
    """Multihead attention block, MAB(X, Y): the set X [B, n, dq] reads the set Y [B, m, dk].

    Heads are folded into the batch axis for bmm.  Residual on the projected queries.
    """

    def __init__(self, dq, dk, dv, heads, ln=True):
        super().__init__()
        assert dv % heads == 0
        self.heads, self.dv = heads, dv
        self.fc_q = nn.Linear(dq, dv)
        self.fc_k = nn.Linear(dk, dv)
        self.fc_v = nn.Linear(dk, dv)
        self.fc_o = nn.Linear(dv, dv)
        self.ln0 = nn.LayerNorm(dv) if ln else nn.Identity()
        self.ln1 = nn.LayerNorm(dv) if ln else nn.Identity()

    def fold(self, t):
        b, n, _ = t.shape
        t = t.view(b, n, self.heads, self.dv // self.heads)
        return t.permute(0, 2, 1, 3).reshape(b * self.heads, n, -1)

    def unfold(self, t, b):
        _, n, d = t.shape
        t = t.view(self.heads, b, n, d).permute(1, 2, 0, 3)
        return t.reshape(b, n, self.heads * d)

    def forward(self, x, y):
        b = x.shape[0]
        q, k, v = self.fc_q(x), self.fc_k(y), self.fc_v(y)
        s = torch.bmm(self.fold(q), self.fold(k).transpose(1, 2))
        a = torch.softmax(s / math.sqrt(self.dv // self.heads), dim=2)
        o = q + self.unfold(torch.bmm(a, self.fold(v)), b)
        o = self.ln0(o)
        return self.ln1(o + torch.relu(self.fc_o(o)))


class ISAB(nn.Module):
    def __init__(self, d_in, d_out, heads, n_ind):
        super().__init__()
        self.ind = nn.Parameter(torch.empty(1, n_ind, d_out))
        nn.init.xavier_uniform_(self.ind)
        self.to_ind = MAB(d_out, d_in, d_out, heads)
        self.from_ind = MAB(d_in, d_out, d_out, heads)

    def forward(self, x):
        h = self.to_ind(self.ind.expand(x.shape[0], -1, -1), x)
        return self.from_ind(x, h)


class PMA(nn.Module):
    def __init__(self, dim, heads, seeds=1):
        super().__init__()
        self.seed = nn.Parameter(torch.empty(1, seeds, dim))
        nn.init.xavier_uniform_(self.seed)
        self.mab = MAB(dim, dim, dim, heads)

    def forward(self, x):
        return self.mab(self.seed.expand(x.shape[0], -1, -1), x)


class PointNetSet(nn.Module):
    def __init__(self, dim=32, heads=4, classes=10):
        super().__init__()
        self.enc = nn.Sequential(ISAB(3, dim, heads, 8), ISAB(dim, dim, heads, 8))
        self.pool = PMA(dim, heads)
        self.cls = nn.Linear(dim, classes)

    def forward(self, pts):
        return self.cls(self.pool(self.enc(pts)).squeeze(1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--points", type=int, default=100)
    ap.add_argument("--batch", type=int, default=3)
    args = ap.parse_args()
    print(PointNetSet()(torch.randn(args.batch, args.points, 3)).shape)


if __name__ == "__main__":
    main()
