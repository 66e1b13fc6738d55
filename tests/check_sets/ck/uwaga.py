"""Warstwa kodera BERT (polska implementacja do zajec)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Uwaga(nn.Module):
    """Wieloglowa uwaga.

    x    : (B, L, D)
    obec : (B, L) 1 = slowo, 0 = wypelnienie; wypelnienia nikt nie widzi
    """

    def __init__(self, D=40, G=5, p=0.1):
        super().__init__()
        self.G, self.dg = G, D // G
        self.zap = nn.Linear(D, D)
        self.klu = nn.Linear(D, D)
        self.war = nn.Linear(D, D)
        self.wyj = nn.Linear(D, D)
        self.p = p

    def glowy(self, t):
        return t.view(t.shape[0], t.shape[1], self.G, self.dg).permute(0, 2, 1, 3)

    def forward(self, x, obec=None):
        B, L, D = x.shape
        z, k, w = self.glowy(self.zap(x)), self.glowy(self.klu(x)), self.glowy(self.war(x))
        s = z @ k.transpose(-1, -2) / self.dg ** 0.5
        if obec is not None:
            s = s.masked_fill(obec[:, None, None, :] == 0, torch.finfo(s.dtype).min)
        a = F.softmax(s, dim=-1)
        a = F.dropout(a, self.p, self.training)
        y = (a @ w).reshape(B, L, D)
        return self.wyj(y)


class Koder(nn.Module):
    def __init__(self, D=40, G=5, F_=80):
        super().__init__()
        self.uwaga = Uwaga(D, G)
        self.n1 = nn.LayerNorm(D)
        self.n2 = nn.LayerNorm(D)
        self.a = nn.Linear(D, F_)
        self.b = nn.Linear(F_, D)

    def forward(self, x, obec=None):
        x = self.n1(x + self.uwaga(x, obec))
        return self.n2(x + self.b(F.gelu(self.a(x))))
