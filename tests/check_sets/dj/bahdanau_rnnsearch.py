"""Decodificador RNNsearch (Bahdanau, Cho y Bengio, 2015, apéndice A.1.2).

Para cada palabra de salida i:

    e_ij  = v_a^T tanh(W_a s_{i-1} + U_a h_j)
    a_ij  = exp(e_ij) / sum_k exp(e_ik)          (suma sobre la frase fuente)
    c_i   = sum_j a_ij h_j
    s_i   = GRU([E y_{i-1}; c_i], s_{i-1})
    t_i   = maxout(U_o s_{i-1} + V_o E y_{i-1} + C_o c_i)

U_a h_j no depende de i, así que se calcula una sola vez por frase.
"""
import torch
from torch import nn


class Decodificador(nn.Module):
    """Entrada de forward:

    H       (B, Tx, 2n)  anotaciones del codificador bidireccional
    fuente  (B, Tx)      bool, True = palabra de verdad, False = relleno
                         (ninguna frase está vacía)
    y       (B, Ty)      palabras anteriores (teacher forcing, empieza con <s>)

    Devuelve logits (B, Ty, V) y alfas (B, Ty, Tx).
    """

    def __init__(self, V, m=32, n=24, n_alin=20, l=16):
        super().__init__()
        self.E = nn.Embedding(V, m)
        self.s0 = nn.Linear(n, n)
        self.W_a = nn.Linear(n, n_alin, bias=False)
        self.U_a = nn.Linear(2 * n, n_alin, bias=False)
        self.v_a = nn.Parameter(torch.randn(n_alin) * 0.3)
        self.gru = nn.GRUCell(m + 2 * n, n)
        self.U_o = nn.Linear(n, 2 * l)
        self.V_o = nn.Linear(m, 2 * l, bias=False)
        self.C_o = nn.Linear(2 * n, 2 * l, bias=False)
        self.W_o = nn.Linear(l, V)
        self.n = n

    def alinear(self, s, UH, fuente):
        e = torch.tanh(self.W_a(s)[:, None] + UH) @ self.v_a       # (B, Tx)
        e = e.masked_fill(fuente.logical_not(), float("-inf"))
        return torch.softmax(e, dim=1)

    def forward(self, H, fuente, y):
        # la anotación hacia atrás de la primera palabra resume la frase
        s = torch.tanh(self.s0(H[:, 0, self.n:]))
        UH = self.U_a(H)
        logits, alfas = [], []
        for i in range(y.shape[1]):
            ey = self.E(y[:, i])
            a = self.alinear(s, UH, fuente)
            c = torch.bmm(a[:, None], H)[:, 0]
            t = self.U_o(s) + self.V_o(ey) + self.C_o(c)
            t = t.view(t.shape[0], -1, 2).amax(-1)                 # maxout por pares
            logits.append(self.W_o(t))
            alfas.append(a)
            s = self.gru(torch.cat([ey, c], -1), s)
        return torch.stack(logits, 1), torch.stack(alfas, 1)
