"""Resumen de escaneos de alfombras (nudos por fila muy variables) en K latentes fijos.

Remuestreador al estilo Perceiver/Flamingo: los latentes consultan la concatenación
[nudos ; latentes]. ``relleno``: bool [B, N], True = nudo inexistente (se ignora).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

CFG = dict(dim=32, cabezas=4, dim_cabeza=8, latentes=6, capas=2)


class AtencionPerceptor(nn.Module):
    def __init__(self, dim, cabezas, dim_cabeza):
        super().__init__()
        self.cabezas = cabezas
        interno = cabezas * dim_cabeza
        self.norma_x = nn.LayerNorm(dim)
        self.norma_l = nn.LayerNorm(dim)
        self.a_q = nn.Linear(dim, interno, bias=False)
        self.a_kv = nn.Linear(dim, 2 * interno, bias=False)
        self.fuera = nn.Linear(interno, dim, bias=False)

    def forward(self, x, lat, relleno=None):
        x, lat = self.norma_x(x), self.norma_l(lat)
        B, N, _ = x.shape
        K = lat.shape[1]
        q = self.a_q(lat)
        k, v = self.a_kv(torch.cat([x, lat], dim=1)).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.cabezas, -1)).transpose(1, 2) for t in (q, k, v))
        permitido = None
        if relleno is not None:
            # SDPA espera True = participa; los latentes participan siempre
            permitido = F.pad(~relleno, (0, K), value=True)[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=permitido)
        return self.fuera(y.transpose(1, 2).reshape(B, K, -1))


def mlp(dim, m=4):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim * m, bias=False), nn.GELU(),
                         nn.Linear(dim * m, dim, bias=False))


class Remuestreador(nn.Module):
    def __init__(self, cfg=CFG):
        super().__init__()
        self.lat = nn.Parameter(torch.randn(cfg["latentes"], cfg["dim"]))
        self.capas = nn.ModuleList(
            nn.ModuleList([AtencionPerceptor(cfg["dim"], cfg["cabezas"], cfg["dim_cabeza"]), mlp(cfg["dim"])])
            for _ in range(cfg["capas"])
        )
        self.norma = nn.LayerNorm(cfg["dim"])

    def forward(self, nudos, relleno=None):
        lat = self.lat.expand(nudos.shape[0], -1, -1)
        for at, ff in self.capas:
            lat = lat + at(nudos, lat, relleno)
            lat = lat + ff(lat)
        return self.norma(lat)


if __name__ == "__main__":
    r = Remuestreador()
    print(r(torch.randn(2, 9, 32), torch.arange(9)[None] >= torch.tensor([[9], [4]])).shape)
