"""Tarea 3: traductor con GRU y atención de Bahdanau.

La consigna: en cada paso el decodificador compara su estado s con CADA salida del codificador
h_j,   e_j = v^T tanh(W_s s + W_h h_j),   α = softmax(e),   c = Σ α_j h_j,
y usa [embedding; c] como entrada de la GRU.

(el loss baja, pero las frases largas salen mal)
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DecodificadorAtencion(nn.Module):
    """Un paso del decodificador.

    palabra    (B,) índices
    estado     (1, B, H) estado oculto de la GRU
    salidas    (B, L, H) salidas del codificador, con L <= max_largo
    validas    (B, L) bool, True = palabra real de la fuente (al menos una)
    Devuelve logits (B, vocab), el estado nuevo y los pesos (B, L), que suman 1.
    """

    def __init__(self, vocab, H, max_largo=30, p=0.1):
        super().__init__()
        self.emb = nn.Embedding(vocab, H)
        self.W_s = nn.Linear(2 * H, H)
        self.v = nn.Linear(H, max_largo)
        self.gru = nn.GRU(2 * H, H, batch_first=True)
        self.out = nn.Linear(H, vocab)
        self.drop = nn.Dropout(p)

    def pesos(self, emb, estado, salidas, validas):
        L = salidas.size(1)
        s = torch.cat([emb, estado[0]], dim=-1)
        e = self.v(torch.tanh(self.W_s(s)))[:, :L]
        e = e.masked_fill(~validas, float("-inf"))
        return F.softmax(e, dim=1)

    def forward(self, palabra, estado, salidas, validas):
        emb = self.drop(self.emb(palabra))
        alfa = self.pesos(emb, estado, salidas, validas)
        c = torch.bmm(alfa.unsqueeze(1), salidas)
        x = torch.cat([emb.unsqueeze(1), c], dim=-1)
        y, estado = self.gru(x, estado)
        return self.out(y.squeeze(1)), estado, alfa
