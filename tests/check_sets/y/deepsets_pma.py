"""Set encoders for point clouds / multiple-instance learning.

MAB / ISAB / PMA after Lee et al. 2019, with a validity mask for ragged sets.
`valid` is (B, N) bool, True = element exists.
"""
import torch
from torch import nn


class MAB(nn.Module):
    def __init__(self, dim_q, dim_k, dim, heads=4, ln=True):
        super().__init__()
        self.h = heads
        self.dk = dim // heads
        self.fc_q = nn.Linear(dim_q, dim)
        self.fc_k = nn.Linear(dim_k, dim)
        self.fc_v = nn.Linear(dim_k, dim)
        self.fc_o = nn.Linear(dim, dim)
        self.ln0 = nn.LayerNorm(dim) if ln else nn.Identity()
        self.ln1 = nn.LayerNorm(dim) if ln else nn.Identity()

    def forward(self, Q, K, valid=None):
        B = Q.shape[0]
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        # heads stacked on the batch axis, head-major
        Qh, Kh, Vh = (torch.cat(t.split(self.dk, 2), 0) for t in (Q, K, V))
        S = torch.baddbmm(
            torch.zeros(1, 1, 1, dtype=Q.dtype, device=Q.device),
            Qh, Kh.transpose(1, 2), beta=0, alpha=self.dk ** -0.5)
        if valid is not None:
            m = valid.repeat(self.h, 1)[:, None, :]
            S = torch.where(m, S, S.new_tensor(torch.finfo(S.dtype).min))
        A = S.softmax(2)
        O = torch.cat((Qh + A.bmm(Vh)).split(B, 0), 2)
        O = self.ln0(O)
        return self.ln1(O + torch.relu(self.fc_o(O)))


class ISAB(nn.Module):
    def __init__(self, din, dim, heads, m):
        super().__init__()
        self.I = nn.Parameter(torch.empty(1, m, dim))
        nn.init.xavier_uniform_(self.I)
        self.down = MAB(dim, din, dim, heads)
        self.up = MAB(din, dim, dim, heads)

    def forward(self, X, valid=None):
        H = self.down(self.I.expand(X.shape[0], -1, -1), X, valid)
        return self.up(X, H)


class PMA(nn.Module):
    def __init__(self, dim, heads, k):
        super().__init__()
        self.S = nn.Parameter(torch.empty(1, k, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, heads)

    def forward(self, X, valid=None):
        return self.mab(self.S.expand(X.shape[0], -1, -1), X, valid)


class SetEncoder(nn.Module):
    def __init__(self, din=3, dim=32, heads=4, inducing=5, seeds=2, dout=7):
        super().__init__()
        self.enc1 = ISAB(din, dim, heads, inducing)
        self.enc2 = ISAB(dim, dim, heads, inducing)
        self.pool = PMA(dim, heads, seeds)
        self.sab = MAB(dim, dim, dim, heads)
        self.out = nn.Linear(dim, dout)

    def forward(self, X, valid=None):
        Z = self.enc2(self.enc1(X, valid), valid)
        Z = self.pool(Z, valid)
        Z = self.sab(Z, Z)
        return self.out(Z).mean(1)
