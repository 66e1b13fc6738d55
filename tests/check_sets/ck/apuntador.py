"""Pointer Networks (Vinyals, Fortunato y Jaitly, 2015) para la envolvente convexa.

La salida de cada paso es una distribucion sobre las posiciones de la entrada,
calculada con la atencion aditiva de Bahdanau entre el estado del decodificador y los estados del codificador.
"""
import torch
import torch.nn as nn


class Apuntar(nn.Module):
    def __init__(self, oculto):
        super().__init__()
        self.W1 = nn.Linear(oculto, oculto, bias=False)
        self.W2 = nn.Linear(oculto, oculto, bias=False)
        self.v = nn.Linear(oculto, 1, bias=False)

    def forward(self, d, e, usados):
        """d (B, O), e (B, N, O), usados (B, N) True = ya no se puede elegir -> (B, N)"""
        u = self.v(self.W1(e) + self.W2(d).unsqueeze(1)).squeeze(-1)
        u = u.masked_fill(usados, float("-inf"))
        return torch.softmax(u, dim=-1)


class RedApuntadora(nn.Module):
    """puntos (B, N, 2) -> probabilidades (B, pasos, N) y elegidos (B, pasos); pasos <= N"""

    def __init__(self, oculto=24):
        super().__init__()
        self.entrada = nn.Linear(2, oculto)
        self.codificador = nn.LSTM(oculto, oculto, batch_first=True)
        self.decodificador = nn.LSTMCell(oculto, oculto)
        self.apuntar = Apuntar(oculto)
        self.inicio = nn.Parameter(torch.randn(oculto) * 0.1)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.5)

    def forward(self, puntos, pasos=3):
        B, N, _ = puntos.shape
        x = self.entrada(puntos)
        e, (h, c) = self.codificador(x)
        h, c = h[0], c[0]
        dado = self.inicio.expand(B, -1)
        usados = torch.zeros(B, N, dtype=torch.bool, device=puntos.device)
        probs, elegidos = [], []
        for _ in range(pasos):
            h, c = self.decodificador(dado, (h, c))
            p = self.apuntar(h, e, usados)
            i = p.argmax(-1)
            usados = usados.scatter(1, i[:, None], True)
            dado = x[torch.arange(B), i]
            probs.append(p)
            elegidos.append(i)
        return torch.stack(probs, 1), torch.stack(elegidos, 1)
