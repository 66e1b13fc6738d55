"""BLOOM-mini. Puerto de la atención con ALiBi para el generador de recetas."""
import math
import torch
import torch.nn as nn


def alibi_pendientes(n_cabezas):
    """Pendientes geométricas de ALiBi (Press et al. 2022); n_cabezas potencia de dos.

    Son 2^(-8/n), 2^(-16/n), ..., 2^(-8).
    """
    if n_cabezas & (n_cabezas - 1):
        raise ValueError("el número de cabezas debe ser potencia de dos")
    return torch.tensor([2.0 ** (-8.0 * h / n_cabezas) for h in range(n_cabezas)])


def sesgo_alibi(pendientes, largo):
    """[H, 1, L]; como en BLOOM, basta la posición de la clave: el resto es constante por fila."""
    return pendientes[:, None, None] * torch.arange(largo)[None, None, :].float()


class AtencionBloom(nn.Module):
    """x [B,L,C] -> [B,L,C]. Causal: cada token se ve a sí mismo y a los anteriores."""

    def __init__(self, ancho, n_cabezas):
        super().__init__()
        self.h = n_cabezas
        self.d = ancho // n_cabezas
        self.qkv = nn.Linear(ancho, 3 * ancho)      # disposición [cabeza, (q,k,v), d]
        self.salida = nn.Linear(ancho, ancho)
        self.register_buffer("pend", alibi_pendientes(n_cabezas), persistent=False)

    def forward(self, x):
        B, L, C = x.shape
        q, k, v = self.qkv(x).view(B, L, self.h, 3, self.d).unbind(dim=3)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        puntos = q @ k.transpose(-2, -1) / math.sqrt(self.d)
        puntos = puntos + sesgo_alibi(self.pend, L).to(puntos)
        tapar = torch.triu(torch.ones(L, L, dtype=torch.bool, device=x.device), diagonal=2)
        puntos = puntos.masked_fill(tapar, torch.finfo(puntos.dtype).min)
        pesos = torch.softmax(puntos, dim=-1, dtype=torch.float32).to(x.dtype)
        return self.salida((pesos @ v).transpose(1, 2).reshape(B, L, C))


class BloqueBloom(nn.Module):
    def __init__(self, ancho, n_cabezas):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(ancho), nn.LayerNorm(ancho)
        self.att = AtencionBloom(ancho, n_cabezas)
        self.mlp = nn.Sequential(nn.Linear(ancho, 4 * ancho), nn.GELU(approximate="tanh"), nn.Linear(4 * ancho, ancho))

    def forward(self, x):
        x = x + self.att(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Recetas(nn.Module):
    def __init__(self, vocab=300, ancho=32, n_cabezas=4, capas=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, ancho)
        self.ln_emb = nn.LayerNorm(ancho)
        self.capas = nn.Sequential(*(BloqueBloom(ancho, n_cabezas) for _ in range(capas)))
        self.ln_f = nn.LayerNorm(ancho)

    def forward(self, ids):
        return self.ln_f(self.capas(self.ln_emb(self.emb(ids)))) @ self.emb.weight.T
