import torch
from torch import nn


class Glowa(nn.Module):
    def __init__(self, dim, d, n_glow):
        super().__init__()
        self.q = nn.Linear(dim, d, bias=False)
        self.k = nn.Linear(dim, d, bias=False)
        self.v = nn.Linear(dim, d, bias=False)
        self.skala = n_glow ** -0.5

    def forward(self, x, zakryte):
        s = self.q(x) @ self.k(x).transpose(-2, -1) * self.skala
        s = s.masked_fill(zakryte, float("-inf"))
        return s.softmax(dim=-1) @ self.v(x)


class Melodia(nn.Module):
    """Autoregresyjny blok dla nut: nuta t korzysta z nut 0..t, nigdy z pozniejszych.
    Skalowany iloczyn skalarny w kazdej glowie; blok uczony w calosci przez Adama
    (Melodia(...).parameters())."""

    def __init__(self, dim=32, n_glow=4):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.glowy = [Glowa(dim, dim // n_glow, n_glow) for _ in range(n_glow)]
        self.wyjscie = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        n = x.size(1)
        zakryte = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(diagonal=2)
        y = self.norm1(x)
        y = torch.cat([g(y, zakryte) for g in self.glowy], dim=-1)
        x = x + self.wyjscie(y)
        return x + self.mlp(self.norm2(x))
