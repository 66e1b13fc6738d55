import torch
from torch import nn


class Uwaga(nn.Module):
    def __init__(self, dim, dim_kontekstu, glowy, dim_glowy):
        super().__init__()
        self.glowy = glowy
        self.skala = dim_glowy ** -0.5
        self.norma = nn.LayerNorm(dim)
        self.norma_k = nn.LayerNorm(dim_kontekstu)
        self.do_q = nn.Linear(dim, glowy * dim_glowy, bias=False)
        self.do_kv = nn.Linear(dim_kontekstu, 2 * glowy * dim_glowy, bias=False)
        self.wyjscie = nn.Linear(glowy * dim_glowy, dim)

    def forward(self, x, kontekst, maska=None):
        q = self.do_q(self.norma(x))
        k, v = self.do_kv(self.norma_k(kontekst)).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.glowy, -1)).transpose(1, 2) for t in (q, k, v))
        sim = torch.einsum("bhid,bhjd->bhij", q * self.skala, k)
        if maska is not None:
            sim = sim.masked_fill(~maska[:, None, None, :], -torch.finfo(sim.dtype).max)
        y = torch.einsum("bhij,bhjd->bhid", sim.softmax(dim=-1), v)
        return self.wyjscie(y.transpose(1, 2).flatten(2))


class Perceiver(nn.Module):
    """Perceiver: macierz bajtow (B, M, dim_we) czytana przez `n_lat` ukrytych wektorow.

    maska: (B, M), True = prawdziwy element. Wynik: (B, klasy).
    """

    def __init__(self, dim_we=12, n_lat=6, dim=32, glowy=4, warstwy=2, klasy=3):
        super().__init__()
        self.ukryte = nn.Parameter(torch.randn(n_lat, dim) * 0.02)
        self.krzyz = Uwaga(dim, dim_we, 1, dim)
        self.wlasne = nn.ModuleList(Uwaga(dim, dim, glowy, dim // glowy) for _ in range(warstwy))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
            for _ in range(warstwy))
        self.glowica = nn.Linear(dim, klasy)

    def forward(self, dane, maska=None):
        x = self.ukryte.expand(dane.shape[0], -1, -1)
        x = x + self.krzyz(x, dane, maska)
        for u, m in zip(self.wlasne, self.mlp):
            x = x + u(x, x)
            x = x + m(x)
        return self.glowica(x.mean(dim=1))
