"""Decodificador recorrente com atenção aditiva, para resumir notícias.

Em cada passo o estado s é comparado com *cada* saída h_j do codificador,
    e_j = v . tanh(W [s ; h_j]),   a = softmax_j(e),   c = sum_j a_j h_j
de modo que o peso de uma palavra depende do que está escrito nela; trocar duas
palavras da fonte troca os dois pesos.

``Passo(V, m, d, max_len)``
    w   (B,) long            palavra anterior
    s   (1, B, d)            estado do GRU
    H   (B, L, d)            saídas do codificador, L <= max_len
    val (B, L) bool          True = palavra real, False = enchimento (peso 0)
devolve (logits (B, V), s (1, B, d), a (B, L)).
"""
import torch
import torch.nn as nn


class Passo(nn.Module):
    def __init__(self, V, m, d, max_len=50):
        super().__init__()
        self.emb = nn.Embedding(V, m)
        self.attn = nn.Linear(d + m, max_len)
        self.junta = nn.Linear(m + d, d)
        self.gru = nn.GRU(d, d)
        self.sai = nn.Linear(d, V)

    def forward(self, w, s, H, val):
        x = self.emb(w)
        e = self.attn(torch.cat((s[0], x), dim=1))
        e = e[:, :H.size(1)]
        e = e.masked_fill(~val, float("-inf"))
        a = torch.softmax(e, dim=1)
        c = torch.bmm(a.unsqueeze(1), H).squeeze(1)
        z = torch.relu(self.junta(torch.cat((x, c), dim=1)))
        y, s = self.gru(z.unsqueeze(0), s)
        return self.sai(y[0]), s, a
