"""Paragraph encoder for court decisions (Brazilian Portuguese)."""
import math

import torch
from torch import nn


class PosicaoSenoidal(nn.Module):
    """Codificação posicional clássica (seno nas pares, cosseno nas ímpares)."""

    def __init__(self, d_model, tam_max=512):
        super().__init__()
        pos = torch.arange(tam_max, dtype=torch.float).unsqueeze(1)
        freq = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float) * (-math.log(10000.0) / d_model))
        tabela = torch.zeros(tam_max, d_model)
        tabela[:, 0::2] = torch.sin(pos * freq)
        tabela[:, 1::2] = torch.cos(pos * freq)
        self.register_buffer("tabela", tabela)

    def forward(self, x):
        return x + self.tabela[: x.size(1)]


class AtencaoMultiCabeca(nn.Module):
    """Tokens de preenchimento (padding) não podem ser vistos por nenhum token."""

    def __init__(self, d_model, n_cabecas, dropout=0.1):
        super().__init__()
        assert d_model % n_cabecas == 0
        self.d_k = d_model // n_cabecas
        self.n = n_cabecas
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def dividir(self, t):
        b, l, _ = t.shape
        return t.view(b, l, self.n, self.d_k).transpose(1, 2)

    def forward(self, x, mascara=None):
        """mascara: booleana, expansível para (batch, cabeças, L, L), True = manter."""
        q, k, v = self.dividir(self.wq(x)), self.dividir(self.wk(x)), self.dividir(self.wv(x))
        s = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mascara is not None:
            s = s.masked_fill(~mascara, -1e9)
        p = self.dropout(torch.softmax(s, dim=-1))
        b, _, l, _ = q.shape
        return self.wo((p @ v).transpose(1, 2).contiguous().view(b, l, self.n * self.d_k))


class Camada(nn.Module):
    def __init__(self, d_model, n_cabecas, d_ff, dropout=0.1):
        super().__init__()
        self.att = AtencaoMultiCabeca(d_model, n_cabecas, dropout)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.d = nn.Dropout(dropout)

    def forward(self, x, mascara):
        x = self.n1(x + self.d(self.att(x, mascara)))
        return self.n2(x + self.d(self.ff(x)))


class CodificadorJuridico(nn.Module):
    PAD = 0

    def __init__(self, vocab, d_model=64, n_cabecas=4, n_camadas=2, n_classes=5):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model, padding_idx=self.PAD)
        self.pos = PosicaoSenoidal(d_model)
        self.camadas = nn.ModuleList([Camada(d_model, n_cabecas, 4 * d_model) for _ in range(n_camadas)])
        self.saida = nn.Linear(d_model, n_classes)
        self.escala = math.sqrt(d_model)

    def mascara_padding(self, ids):
        return (ids != self.PAD).unsqueeze(1).unsqueeze(3)

    def forward(self, ids):
        m = self.mascara_padding(ids)
        x = self.pos(self.emb(ids) * self.escala)
        for c in self.camadas:
            x = c(x, m)
        return self.saida(x[:, 0])


if __name__ == "__main__":
    ids = torch.randint(1, 90, (3, 11))
    ids[1, 6:] = 0
    print(CodificadorJuridico(90)(ids).shape)
