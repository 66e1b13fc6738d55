"""Atenção de covariância cruzada (XCA, do XCiT): os canais atendem a canais, não pixels a pixels.

Entrada e saída: (B, C, H, W).  São `cabecas` grupos de d = C / cabecas canais vizinhos.
Em cada grupo, com Q, K, V de forma (d, N), N = H * W:

    A = softmax( temperatura * Qn Kn^T ) sobre os canais de K     -> (d, d)
    Y = A V                                                       -> (d, N)

Qn e Kn são Q e K com cada canal dividido pela sua norma L2 ao longo dos N pixels; por isso não
há 1/sqrt(d), e sim uma temperatura aprendida por grupo.
"""
import torch
from torch import nn
import torch.nn.functional as F


class XCA(nn.Module):
    def __init__(self, canais, cabecas=4):
        super().__init__()
        self.cabecas = cabecas
        self.norma = nn.GroupNorm(1, canais)
        self.qkv = nn.Conv2d(canais, 3 * canais, 1, bias=False)
        self.saida = nn.Conv2d(canais, canais, 1)
        self.temperatura = nn.Parameter(torch.ones(cabecas, 1, 1))

    def forward(self, x):
        B, C, H, W = x.shape
        q, k, v = self.qkv(self.norma(x)).reshape(B, 3, self.cabecas, C // self.cabecas, H * W).unbind(1)
        q = F.normalize(q, dim=-1)
        k = F.normalize(k, dim=-1)
        a = (q @ k.transpose(-2, -1)) * self.temperatura
        y = a.softmax(dim=-1) @ v
        return x + self.saida(y.reshape(B, C, H, W))
