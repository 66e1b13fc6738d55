# Remuestreador tipo Perceiver para el brazo robótico.
# Entran fichas de varias cámaras, salen siempre `n_latentes` fichas.
import torch
from torch import nn, einsum


def existe(x):
    return x is not None


def capa_ff(dim, mult=4):
    return nn.Sequential(
        nn.LayerNorm(dim),
        nn.Linear(dim, dim * mult, bias=False),
        nn.GELU(),
        nn.Linear(dim * mult, dim, bias=False),
    )


class AtencionPerceiver(nn.Module):
    """Los latentes preguntan; claves y valores = fichas de imagen seguidas de los
    propios latentes.

    fichas   (b, n, d)
    latentes (b, m, d)
    viva     (b, n) bool, True = la cámara de esa ficha funciona
    """

    def __init__(self, *, dim, dim_cabeza=16, cabezas=4):
        super().__init__()
        self.escala = dim_cabeza ** -0.5
        self.cabezas = cabezas
        interno = dim_cabeza * cabezas
        self.norma_f = nn.LayerNorm(dim)
        self.norma_l = nn.LayerNorm(dim)
        self.a_q = nn.Linear(dim, interno, bias=False)
        self.a_kv = nn.Linear(dim, interno * 2, bias=False)
        self.salida = nn.Linear(interno, dim, bias=False)

    def forward(self, fichas, latentes, viva=None):
        fichas, latentes = self.norma_f(fichas), self.norma_l(latentes)
        b, m, h = *latentes.shape[:2], self.cabezas

        q = self.a_q(latentes)
        k, v = self.a_kv(torch.cat((fichas, latentes), dim=-2)).chunk(2, dim=-1)
        q, k, v = (t.reshape(b, t.shape[1], h, -1).transpose(1, 2) for t in (q, k, v))

        sim = einsum('b h i d, b h j d -> b h i j', q * self.escala, k)
        if existe(viva):
            # los latentes siempre están vivos
            viva = nn.functional.pad(viva, (0, m), value=True)
            sim = sim.masked_fill(~viva[:, None, None, :], -torch.finfo(sim.dtype).max)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        pesos = sim.softmax(dim=-1)

        sal = einsum('b h i j, b h j d -> b h i d', pesos, v)
        return self.salida(sal.transpose(1, 2).reshape(b, m, -1))


class Remuestreador(nn.Module):
    def __init__(self, *, dim=32, capas=2, n_latentes=6, n_camaras=3):
        super().__init__()
        self.latentes = nn.Parameter(torch.randn(n_latentes, dim))
        self.pos_camara = nn.Parameter(torch.randn(n_camaras, 1, dim))
        self.capas = nn.ModuleList([
            nn.ModuleList([AtencionPerceiver(dim=dim), capa_ff(dim)]) for _ in range(capas)
        ])
        self.norma = nn.LayerNorm(dim)

    def forward(self, img, camara_ok=None):
        # img: (b, camaras, n, d);  camara_ok: (b, camaras) bool
        b, c, n, d = img.shape
        x = (img + self.pos_camara[:c]).reshape(b, c * n, d)
        viva = camara_ok.repeat_interleave(n, dim=1) if existe(camara_ok) else None
        lat = self.latentes.expand(b, -1, -1)
        for at, ff in self.capas:
            lat = at(x, lat, viva) + lat
            lat = ff(lat) + lat
        return self.norma(lat)


class PoliticaBrazo(nn.Module):
    """7 articulaciones + pinza, a partir de las fichas remuestreadas"""

    def __init__(self, dim=32):
        super().__init__()
        self.ojos = Remuestreador(dim=dim)
        self.mlp = nn.Sequential(nn.Linear(dim * 6 + 8, 64), nn.Tanh(), nn.Linear(64, 8))

    def forward(self, img, propio, camara_ok=None):
        return self.mlp(torch.cat([self.ojos(img, camara_ok).flatten(1), propio], -1))
