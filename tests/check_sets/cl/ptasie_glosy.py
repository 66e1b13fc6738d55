"""Rozpoznawanie głosów ptaków: ramki mel -> gatunek."""
import torch
from torch import nn


class Uwaga(nn.Module):
    """Uwaga wielogłowa na ramkach. r: (n, t, c). Bez maski, wszystkie ramki nagrania
    widzą się nawzajem; nagrania w paczce są niezależne od siebie."""

    def __init__(self, c=20, glowy=2):
        super().__init__()
        self.glowy = glowy
        self.d = c // glowy
        self.p = nn.Linear(c, c)
        self.k = nn.Linear(c, c)
        self.w = nn.Linear(c, c)
        self.wyj = nn.Linear(c, c)

    def zloz(self, x):
        # (n, t, c) -> (n * głowy, t, d)
        n, t, _ = x.shape
        return x.view(n, t, self.glowy, self.d).permute(0, 2, 1, 3).reshape(n * self.glowy, t, self.d)

    def rozloz(self, x):
        ng, t, _ = x.shape
        x = x.view(self.glowy, ng // self.glowy, t, self.d)
        return x.permute(1, 2, 0, 3).reshape(ng // self.glowy, t, self.glowy * self.d)

    def forward(self, r):
        p, k, w = self.zloz(self.p(r)), self.zloz(self.k(r)), self.zloz(self.w(r))
        a = torch.bmm(p, k.transpose(1, 2)) * self.d ** -0.5
        a = torch.softmax(a, dim=2)
        return self.wyj(self.rozloz(torch.bmm(a, w)))


class Ptaki(nn.Module):
    def __init__(self, mel=16, c=20, gatunki=7):
        super().__init__()
        self.wej = nn.Conv1d(mel, c, 5, padding=2)
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.u = Uwaga(c)
        self.ff = nn.Sequential(nn.Linear(c, 40), nn.GELU(), nn.Linear(40, c))
        self.klasa = nn.Linear(c, gatunki)

    def forward(self, mel):
        """mel: (n, mel, t) -> (n, gatunki)"""
        h = self.wej(mel).transpose(1, 2)
        h = h + self.u(self.n1(h))
        h = h + self.ff(self.n2(h))
        return self.klasa(h.mean(1))
