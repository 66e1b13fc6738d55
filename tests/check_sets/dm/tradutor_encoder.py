"""Tradutor PT-EN do zero (trabalho final de PLN): o codificador do Transformer.

    ids      (B, T) long
    mascara  (B, T) bool, True = posição de enchimento, que não pode ser atendida;
             toda frase tem ao menos uma palavra
    saída    (B, T, d_model)

Codificação posicional exatamente a do artigo:
    PE(pos, 2i)   = sin(pos / 10000^(2i / d_model))
    PE(pos, 2i+1) = cos(pos / 10000^(2i / d_model))
e os embeddings são multiplicados por sqrt(d_model).  A atenção divide por sqrt(d_k),
d_k = d_model / h.
"""
import math

import torch
import torch.nn as nn


def tabela_pos(n, d_model):
    pe = torch.zeros(n, d_model)
    for pos in range(n):
        for i in range(0, d_model, 2):
            pe[pos, i] = math.sin(pos / 10000 ** (2 * i / d_model))
            pe[pos, i + 1] = math.cos(pos / 10000 ** (2 * i / d_model))
    return pe


class Atencao(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        self.h, self.d_k = h, d_model // h
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.o = nn.Linear(d_model, d_model)

    def forward(self, x, mascara):
        B, T, D = x.shape
        q = self.q(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        k = self.k(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        v = self.v(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        notas = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mascara is not None:
            notas.masked_fill(mascara[:, None, None, :], float("-inf"))
        pesos = torch.softmax(notas, dim=-1)
        y = torch.matmul(pesos, v).transpose(1, 2).contiguous().view(B, T, D)
        return self.o(y)


class Codificador(nn.Module):
    def __init__(self, vocab, d_model=32, h=4, n_max=100):
        super().__init__()
        self.d_model = d_model
        self.emb = nn.Embedding(vocab, d_model)
        self.register_buffer("pe", tabela_pos(n_max, d_model))
        self.at = Atencao(d_model, h)
        self.ff = nn.Sequential(nn.Linear(d_model, 64), nn.ReLU(), nn.Linear(64, d_model))
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, ids, mascara=None):
        x = self.emb(ids) * math.sqrt(self.d_model) + self.pe[: ids.shape[1]]
        x = self.n1(x + self.at(x, mascara))
        return self.n2(x + self.ff(x))
