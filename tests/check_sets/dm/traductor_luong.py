"""Traductor español -> inglés: decodificador LSTM con atención de Luong ("general").

Luong et al. 2015, ecuaciones (5) a (8):

    score(h_t, hs) = h_t^T W_a hs
    a_t(s) = softmax sobre las S posiciones de la frase de origen
    c_t    = sum_s a_t(s) hs
    ht~    = tanh(W_c [c_t ; h_t])          vector "atencional"
    logits = W_s ht~

Argumentos de forward:
    y       (B,)         palabra anterior
    estado  (h, c)       cada uno (B, n)
    fuente  (B, S, n)    salidas del codificador
    relleno (B, S) bool  True = posición de relleno (no debe recibir peso)

Devuelve logits (B, V), nuevo estado, pesos (B, S).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DecodificadorLuong(nn.Module):
    def __init__(self, vocab, n):
        super().__init__()
        self.emb = nn.Embedding(vocab, n)
        self.celda = nn.LSTMCell(n, n)
        self.W_a = nn.Linear(n, n, bias=False)
        self.W_c = nn.Linear(2 * n, n, bias=False)
        self.W_s = nn.Linear(n, vocab)

    def forward(self, y, estado, fuente, relleno):
        h, c = self.celda(self.emb(y), estado)
        puntos = torch.bmm(self.W_a(fuente), h.unsqueeze(2))           # (B, S, 1)
        puntos = puntos.masked_fill(relleno.unsqueeze(2), torch.finfo(puntos.dtype).min)
        pesos = F.softmax(puntos, dim=-1)
        contexto = torch.bmm(pesos.transpose(1, 2), fuente).squeeze(1)
        h_at = self.W_c(torch.cat([contexto, h], dim=1))
        return self.W_s(h_at), (h, c), pesos.squeeze(2)
