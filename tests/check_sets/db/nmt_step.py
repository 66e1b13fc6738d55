import torch
from torch import nn


class Passo(nn.Module):
    """Um passo do decodificador de Bahdanau et al. (2015).

    palavra (B, e), estado (B, h), fonte (B, S, c), ok (B, S) bool: True = palavra real
    (ao menos uma por frase). Atencao aditiva: um perceptron de uma camada oculta pontua
    cada palavra da fonte contra o estado. Devolve (novo estado, pesos).
    """

    def __init__(self, e=8, h=10, c=12, a=9):
        super().__init__()
        self.W = nn.Linear(h, a)
        self.U = nn.Linear(c, a, bias=False)
        self.v = nn.Linear(a, 1, bias=False)
        self.gru = nn.GRUCell(e + c, h)

    def forward(self, palavra, estado, fonte, ok):
        nota = self.v(self.W(estado)[:, None, :] + self.U(fonte)).squeeze(-1)
        nota = nota.masked_fill(~ok, float("-inf"))
        pesos = nota.softmax(dim=-1)
        contexto = torch.einsum("bs,bsc->bc", pesos, fonte)
        novo = self.gru(torch.cat([palavra, contexto], -1), estado)
        return novo, pesos
