"""Bloque Swin V2 reducido: ventanas desplazadas, similitud coseno y sesgo de posición continuo."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def trocear(x, v):
    """(B, H, W, C) -> (B*nV, v*v, C)"""
    b, h, w, c = x.shape
    x = x.view(b, h // v, v, w // v, v, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, v * v, c)


def recomponer(trozos, v, h, w):
    b = trozos.shape[0] // ((h // v) * (w // v))
    x = trozos.view(b, h // v, w // v, v, v, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, -1)


class AtencionVentana(nn.Module):
    def __init__(self, dim, v, cabezas):
        super().__init__()
        self.v, self.cabezas = v, cabezas
        self.qkv = nn.Linear(dim, 3 * dim)
        self.salida = nn.Linear(dim, dim)
        self.log_tau = nn.Parameter(torch.full((cabezas, 1, 1), math.log(10.0)))
        self.mlp = nn.Sequential(nn.Linear(2, 32), nn.ReLU(inplace=True), nn.Linear(32, cabezas, bias=False))

        r = torch.arange(-(v - 1), v, dtype=torch.float32)
        tabla = torch.stack(torch.meshgrid(r, r, indexing="ij"), -1) * 8 / max(v - 1, 1)
        self.register_buffer("tabla", torch.sign(tabla) * torch.log2(tabla.abs() + 1) / 3, persistent=False)

        yx = torch.stack(torch.meshgrid(torch.arange(v), torch.arange(v), indexing="ij")).flatten(1)
        dif = yx[:, :, None] - yx[:, None, :] + v - 1
        self.register_buffer("indice", dif[0] * (2 * v - 1) + dif[1], persistent=False)

    def forward(self, x, mascara=None):
        n_b, n, c = x.shape
        q, k, val = self.qkv(x).reshape(n_b, n, 3, self.cabezas, -1).permute(2, 0, 3, 1, 4)
        sim = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        sim = sim * self.log_tau.clamp(max=math.log(100.0)).exp()

        sesgo = self.mlp(self.tabla).view(-1, self.cabezas)[self.indice.view(-1)]
        sesgo = 16 * torch.sigmoid(sesgo.view(n, n, -1).permute(2, 0, 1))
        sim = sim + sesgo
        if mascara is not None:
            n_v = mascara.shape[0]
            sim = sim.view(-1, n_v, self.cabezas, n, n) + mascara[None, :, None]
            sim = sim.view(-1, self.cabezas, n, n)
        return self.salida((sim.softmax(-1) @ val).transpose(1, 2).reshape(n_b, n, c))


class BloqueSwin(nn.Module):
    def __init__(self, dim=32, lado=8, cabezas=4, v=4, desplazo=2):
        super().__init__()
        self.v, self.s = v, desplazo
        self.at = AtencionVentana(dim, v, cabezas)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.red = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        mascara = None
        if desplazo > 0:
            zona = torch.zeros(1, lado, lado, 1)
            cortes = (slice(0, -v), slice(-v, -desplazo), slice(-desplazo, None))
            for i, a in enumerate(cortes):
                for j, b in enumerate(cortes):
                    zona[:, a, b] = 3 * i + j
            zona = trocear(zona, v).squeeze(-1)
            mascara = (zona[:, None, :] != zona[:, :, None]).float() * -1e4
        self.register_buffer("mascara", mascara)

    def forward(self, x):
        """x: (B, lado, lado, dim)"""
        _, h, w, _ = x.shape
        y = torch.roll(x, (-self.s, -self.s), (1, 2))
        y = recomponer(self.at(trocear(y, self.v), self.mascara), self.v, h, w)
        x = x + self.n1(torch.roll(y, (self.s, self.s), (1, 2)))
        return x + self.n2(self.red(x))


if __name__ == "__main__":
    torch.manual_seed(0)
    bloque = BloqueSwin().eval()
    print(bloque(torch.randn(2, 8, 8, 32)).square().mean())
