"""Transformer codificador-decodificador desde cero (Vaswani et al., 2017).

Apuntes del taller de aprendizaje profundo. Aquí está solo la capa del
decodificador: auto-atención causal, atención cruzada sobre la memoria del
codificador y red posicional, cada una con residuo y LayerNorm posterior.

Máscaras booleanas: True = se puede mirar.
"""
import math

import torch
import torch.nn as nn


class AtencionMulticabeza(nn.Module):
    def __init__(self, d_modelo, n_cabezas, p=0.0):
        super().__init__()
        assert d_modelo % n_cabezas == 0, "d_modelo debe ser divisible por n_cabezas"
        self.n_cabezas = n_cabezas
        self.d_k = d_modelo // n_cabezas
        self.w_q = nn.Linear(d_modelo, d_modelo)
        self.w_k = nn.Linear(d_modelo, d_modelo)
        self.w_v = nn.Linear(d_modelo, d_modelo)
        self.w_o = nn.Linear(d_modelo, d_modelo)
        self.dropout = nn.Dropout(p)

    def separar(self, x):
        # (lote, largo, d_modelo) -> (lote, cabezas, largo, d_k)
        return x.view(x.size(0), x.size(1), self.n_cabezas, self.d_k).transpose(1, 2)

    def forward(self, consulta, clave, valor, mascara=None):
        lote, largo = consulta.size(0), consulta.size(1)
        q = self.separar(self.w_q(consulta))
        k = self.separar(self.w_k(clave))
        v = self.separar(self.w_v(valor))

        puntaje = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mascara is not None:
            puntaje = puntaje.masked_fill(~mascara, float("-inf"))
        pesos = self.dropout(puntaje.softmax(dim=-1))
        cabezas = pesos @ v
        juntas = cabezas.reshape(lote, largo, self.n_cabezas * self.d_k)
        return self.w_o(juntas)


class CapaDecodificador(nn.Module):
    """forward(x, memoria, memoria_valida) con x (lote, T, d), memoria (lote, S, d)."""

    def __init__(self, d_modelo=32, n_cabezas=4, d_ff=64, p=0.1):
        super().__init__()
        self.propia = AtencionMulticabeza(d_modelo, n_cabezas, p)
        self.cruzada = AtencionMulticabeza(d_modelo, n_cabezas, p)
        self.ff = nn.Sequential(nn.Linear(d_modelo, d_ff), nn.ReLU(), nn.Dropout(p),
                                nn.Linear(d_ff, d_modelo))
        self.norma1 = nn.LayerNorm(d_modelo)
        self.norma2 = nn.LayerNorm(d_modelo)
        self.norma3 = nn.LayerNorm(d_modelo)
        self.dropout = nn.Dropout(p)

    def forward(self, x, memoria, memoria_valida=None):
        T = x.size(1)
        causal = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        x = self.norma1(x + self.dropout(self.propia(x, x, x, causal)))
        if memoria_valida is not None:
            memoria_valida = memoria_valida[:, None, None, :]
        x = self.norma2(x + self.dropout(self.cruzada(x, memoria, memoria, memoria_valida)))
        return self.norma3(x + self.dropout(self.ff(x)))


if __name__ == "__main__":
    capa = CapaDecodificador().eval()
    valida = torch.arange(7)[None] < torch.tensor([[7], [5]])
    print(capa(torch.randn(2, 4, 32), torch.randn(2, 7, 32), valida).shape)
