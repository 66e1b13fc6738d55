"""Bloque transformer para grafos pequeños (moléculas, redes eléctricas), con matriz densa.

    x    (B, N, D)     nodos
    adj  (B, N, N)     0/1 ; adj[b, i, j] = 1 si el nodo i puede mirar al nodo j
                       (la diagonal siempre es 1)
    ->   (B, N, D)

Atención multicabeza con logits q.k / sqrt(d), d = D / cabezas.  Un nodo SOLO mezcla los nodos
permitidos por adj; los demás reciben peso 0.  Post-norm.
"""
import torch
from torch import nn


class BloqueGrafo(nn.Module):
    def __init__(self, D=32, cabezas=4):
        super().__init__()
        self.n, self.d = cabezas, D // cabezas
        self.q = nn.Linear(D, D)
        self.k = nn.Linear(D, D)
        self.v = nn.Linear(D, D)
        self.o = nn.Linear(D, D)
        self.norma1 = nn.LayerNorm(D)
        self.norma2 = nn.LayerNorm(D)
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.SiLU(), nn.Linear(2 * D, D))

    def mezcla(self, x, adj):
        B, N, D = x.shape
        partir = lambda t: t.reshape(B, N, self.n, self.d).permute(0, 2, 1, 3)
        q, k, v = partir(self.q(x)), partir(self.k(x)), partir(self.v(x))
        puntajes = torch.einsum("bnid,bnjd->bnij", q, k) / self.d
        puntajes = puntajes + adj.unsqueeze(1).to(puntajes.dtype)
        pesos = torch.softmax(puntajes, dim=-1)
        y = torch.einsum("bnij,bnjd->bind", pesos, v)
        return self.o(y.reshape(B, N, D))

    def forward(self, x, adj):
        x = self.norma1(x + self.mezcla(x, adj))
        return self.norma2(x + self.mlp(x))
