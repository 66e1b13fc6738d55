"""Apuntes de clase: la atención de Luong (2015), variante "general".

    puntuación(h, s_j) = h^T W s_j
    a = softmax_j,  c = sum_j a_j s_j,  h~ = tanh(Wc [c ; h])
Aquí el tiempo va en la primera dimensión, como devuelve nn.LSTM por defecto.
"""
import torch
import torch.nn as nn


class DecodificadorLuong(nn.Module):
    """Un paso de traducción con "input feeding".

    palabra  (B,)       índice de la última palabra
    anterior (B, n)     el h~ del paso anterior
    estado   (h, c)     de la celda LSTM, cada uno (B, n)
    fuente   (S, B, n)  estados del codificador
    relleno  (S, B)     bool, True = relleno (peso 0); cada frase tiene algún False
    Devuelve logits (B, vocab), h~ (B, n), el estado nuevo y los pesos (S, B), que
    suman 1 sobre S.
    """

    def __init__(self, vocab, e=12, n=20):
        super().__init__()
        self.emb = nn.Embedding(vocab, e)
        self.celda = nn.LSTMCell(e + n, n)
        self.W = nn.Linear(n, n, bias=False)
        self.Wc = nn.Linear(2 * n, n, bias=False)
        self.vocabulario = nn.Linear(n, vocab)

    def forward(self, palabra, anterior, estado, fuente, relleno):
        x = torch.cat((self.emb(palabra), anterior), dim=1)
        h, c = self.celda(x, estado)

        # (S, B, n) * (B, n) -> (S, B): h^T (W s_j) para cada j
        punt = (self.W(fuente) * h).sum(dim=2)
        punt = punt.masked_fill(relleno, -torch.inf)
        pesos = torch.softmax(punt, dim=0)

        contexto = (pesos.unsqueeze(2) * fuente).sum(dim=0)
        h_tilde = torch.tanh(self.Wc(torch.cat((contexto, h), dim=1)))
        return self.vocabulario(h_tilde), h_tilde, (h, c), pesos
