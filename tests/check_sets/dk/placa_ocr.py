"""Leitura de placas de veículos: CNN -> sequência de colunas -> autoatenção -> CTC.

LeitorDePlacas(n_letras)(img): img [B, 1, 16, W] com W múltiplo de 4
    -> log-probabilidades [W/4, B, n_letras + 1]  (formato do CTC, classe 0 = branco)

A autoatenção tem `cabecas` cabeças de largura dim / cabecas, escala
1/sqrt(dim / cabecas); as cabeças de cada coluna são concatenadas (cabeça 0 primeiro)
antes da projeção de saída. Cada imagem é lida sozinha.
"""
import torch
from torch import nn
import torch.nn.functional as F


class Atencao(nn.Module):
    def __init__(self, dim, cabecas):
        super().__init__()
        self.h = cabecas
        self.d = dim // cabecas
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.saida = nn.Linear(dim, dim)

    def dobrar(self, t):
        """[B, L, dim] -> [B * h, L, d], para usar bmm"""
        B, L, _ = t.shape
        return t.view(B, L, self.h, self.d).permute(0, 2, 1, 3).reshape(B * self.h, L, self.d)

    def forward(self, x):
        B, L, dim = x.shape
        q, k, v = self.dobrar(self.q(x)), self.dobrar(self.k(x)), self.dobrar(self.v(x))
        p = F.softmax(torch.bmm(q, k.transpose(1, 2)) / self.d ** 0.5, dim=2)
        y = torch.bmm(p, v)
        y = y.view(self.h, B, L, self.d).permute(1, 2, 0, 3).reshape(B, L, dim)
        return self.saida(y)


class LeitorDePlacas(nn.Module):
    def __init__(self, n_letras, dim=32, cabecas=4):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, dim, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.norma = nn.LayerNorm(dim)
        self.atencao = Atencao(dim, cabecas)
        self.classe = nn.Linear(dim, n_letras + 1)

    def forward(self, img):
        f = self.cnn(img).mean(2).transpose(1, 2)         # [B, W/4, dim]
        f = f + self.atencao(self.norma(f))
        return F.log_softmax(self.classe(f), dim=-1).transpose(0, 1)


def decodificar(logp, alfabeto):
    """CTC guloso: [L, B, K] -> lista de textos"""
    textos = []
    for linha in logp.argmax(-1).t().tolist():
        s, antes = "", 0
        for c in linha:
            if c and c != antes:
                s += alfabeto[c - 1]
            antes = c
        textos.append(s)
    return textos
