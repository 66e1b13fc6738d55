"""Traductor español -> inglés con atención de Bahdanau (práctica 4, PLN, curso 2021/22).

El decodificador genera una palabra por llamada.  En cada paso:

    e_j = v^T tanh(W s + U h_j)        (sin escala, como en el artículo)
    a   = softmax_j(e),  sólo palabras reales de la frase de origen
    c   = sum_j a_j h_j
    s'  = GRU([emb(y); c], s)

Formas:
    palabra   (B,)            índice de la última palabra generada
    estado    (B, H)
    salidas   (B, L, 2H)      salidas del codificador bidireccional
    relleno   (B, L) bool     True = posición de relleno (<pad>), no se mira

Cada frase tiene por lo menos una palabra real.
Devuelve (logits (B, V), estado (B, H), pesos (B, L)).
"""
import torch
from torch import nn


class Atencion(nn.Module):
    def __init__(self, h, a=None):
        super().__init__()
        a = a or h
        self.W = nn.Linear(h, a, bias=False)
        self.U = nn.Linear(2 * h, a)
        self.v = nn.Linear(a, 1, bias=False)

    def forward(self, s, hs, relleno):
        e = self.v(torch.tanh(self.W(s).unsqueeze(1) + self.U(hs)))   # (B, L, 1)
        e = e.masked_fill(relleno.unsqueeze(2), float("-inf"))
        a = torch.softmax(e, dim=1)          # ojo: aquí el eje 1 es la frase
        c = torch.bmm(hs.transpose(1, 2), a).squeeze(2)
        return c, a.squeeze(2)


class Decodificador(nn.Module):
    def __init__(self, vocab, emb=64, h=64, p=0.2):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.drop = nn.Dropout(p)
        self.aten = Atencion(h)
        self.gru = nn.GRUCell(emb + 2 * h, h)
        self.sal = nn.Linear(h + 2 * h + emb, vocab)

    def forward(self, palabra, estado, salidas, relleno):
        y = self.drop(self.emb(palabra))
        c, a = self.aten(estado, salidas, relleno)
        estado = self.gru(torch.cat([y, c], dim=1), estado)
        logits = self.sal(torch.cat([estado, c, y], dim=1))
        return logits, estado, a
