"""Set Transformer (Lee et al.) do zbiorów o różnej liczności."""
import torch
import torch.nn as nn


def maska_z_licznosci(n, maks):
    """n [B] -> bool [B, maks], True = element istnieje."""
    return torch.arange(maks, device=n.device).unsqueeze(0) < n.unsqueeze(1)


class MAB(nn.Module):
    """Multihead Attention Block: H = LN(Q + MHA(Q, K, K)); LN(H + rFF(H)).

    Zbiór pusty dozwolony: MHA daje wtedy zero.
    """

    def __init__(self, dq, dk, dv, glowy):
        super().__init__()
        self.glowy = glowy
        self.fq, self.fk, self.fv = nn.Linear(dq, dv), nn.Linear(dk, dv), nn.Linear(dk, dv)
        self.ln0, self.ln1 = nn.LayerNorm(dv), nn.LayerNorm(dv)
        self.fo = nn.Linear(dv, dv)

    def forward(self, Q, K, istnieje=None):
        Q, K, V = self.fq(Q), self.fk(K), self.fv(K)
        szer = Q.size(-1) // self.glowy
        # głowy na początek wymiaru batch: [glowy * B, n, szer]
        Qg = torch.cat(Q.split(szer, 2), 0)
        Kg = torch.cat(K.split(szer, 2), 0)
        Vg = torch.cat(V.split(szer, 2), 0)
        S = Qg.bmm(Kg.transpose(1, 2)) / szer ** 0.5
        if istnieje is not None:
            m = istnieje.unsqueeze(1).repeat(self.glowy, 1, 1)
            S = S.masked_fill(~m, torch.finfo(S.dtype).min)
            A = torch.softmax(S, 2) * m
        else:
            A = torch.softmax(S, 2)
        O = torch.cat(A.bmm(Vg).split(Q.size(0), 0), 2)
        H = self.ln0(Q + O)
        return self.ln1(H + torch.relu(self.fo(H)))


class ISAB(nn.Module):
    def __init__(self, din, dout, glowy, punkty):
        super().__init__()
        self.I = nn.Parameter(torch.empty(1, punkty, dout))
        nn.init.xavier_uniform_(self.I)
        self.m0 = MAB(dout, din, dout, glowy)
        self.m1 = MAB(din, dout, dout, glowy)

    def forward(self, X, istnieje=None):
        H = self.m0(self.I.expand(X.size(0), -1, -1), X, istnieje)
        return self.m1(X, H)


class PMA(nn.Module):
    def __init__(self, dim, glowy, ziarna):
        super().__init__()
        self.S = nn.Parameter(torch.empty(1, ziarna, dim))
        nn.init.xavier_uniform_(self.S)
        self.m = MAB(dim, dim, dim, glowy)

    def forward(self, X, istnieje=None):
        return self.m(self.S.expand(X.size(0), -1, -1), X, istnieje)


class SetTransformer(nn.Module):
    def __init__(self, din=2, dim=64, glowy=4, punkty=16, k=1, wyj=10):
        super().__init__()
        self.e1 = ISAB(din, dim, glowy, punkty)
        self.e2 = ISAB(dim, dim, glowy, punkty)
        self.p = PMA(dim, glowy, k)
        self.out = nn.Linear(dim, wyj)

    def forward(self, X, n):
        m = maska_z_licznosci(n, X.size(1))
        return self.out(self.p(self.e2(self.e1(X, m), m), m))
