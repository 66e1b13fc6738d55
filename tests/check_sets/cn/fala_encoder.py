"""Codificador de fala (trabalho de conclusão).

Transformer encoder "vanilla": codificação senoidal de Vaswani et al.

    PE[pos, 2i]   = sin(pos / 10000^(2i / d_model))
    PE[pos, 2i+1] = cos(pos / 10000^(2i / d_model))

seguida de atenção multi-cabeça escalada por sqrt(d_k).  `mascara` [B, T]: True nos
quadros com fala, False no preenchimento; quadros de preenchimento são ignorados.
"""
import math

import torch
import torch.nn as nn


class CodificacaoPosicional(nn.Module):
    def __init__(self, d_model, max_len=500):
        super().__init__()
        pos = torch.arange(max_len).unsqueeze(1).float()
        i = torch.arange(0, d_model, 2).float()
        div = torch.pow(10000.0, 2 * i / d_model)
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(pos / div)
        pe[:, 1::2] = torch.cos(pos / div)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class AtencaoMultiCabeca(nn.Module):
    def __init__(self, d_model=64, n_cabecas=4, dropout=0.1):
        super().__init__()
        assert d_model % n_cabecas == 0
        self.n, self.d_k = n_cabecas, d_model // n_cabecas
        self.linear_q = nn.Linear(d_model, d_model)
        self.linear_k = nn.Linear(d_model, d_model)
        self.linear_v = nn.Linear(d_model, d_model)
        self.linear_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mascara=None):
        B, T, D = x.size()
        q = self.linear_q(x).view(B, self.n, T, self.d_k)
        k = self.linear_k(x).view(B, self.n, T, self.d_k)
        v = self.linear_v(x).view(B, self.n, T, self.d_k)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mascara is not None:
            scores = scores + mascara[:, None, None, :]
        p = self.dropout(torch.softmax(scores, dim=-1))
        y = torch.matmul(p, v)
        return self.linear_o(y.transpose(1, 2).contiguous().view(B, T, D))


class CodificadorFala(nn.Module):
    """quadros [B, T, mel], mascara bool [B, T] -> [B, T, d_model]"""

    def __init__(self, mel=40, d_model=64, n_cabecas=4, camadas=2):
        super().__init__()
        self.entrada = nn.Linear(mel, d_model)
        self.pos = CodificacaoPosicional(d_model)
        self.att = nn.ModuleList([AtencaoMultiCabeca(d_model, n_cabecas) for _ in range(camadas)])
        self.ln1 = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(camadas)])
        self.ln2 = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(camadas)])
        self.ff = nn.ModuleList([nn.Sequential(nn.Linear(d_model, 128), nn.ReLU(), nn.Linear(128, d_model))
                                 for _ in range(camadas)])

    def forward(self, quadros, mascara=None):
        x = self.pos(self.entrada(quadros))
        for att, ln1, ln2, ff in zip(self.att, self.ln1, self.ln2, self.ff):
            x = ln1(x + att(x, mascara))
            x = ln2(x + ff(x))
        return x
