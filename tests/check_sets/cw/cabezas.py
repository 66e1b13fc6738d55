import torch
from torch import nn


class Cabeza(nn.Module):
    def __init__(self, dim, tam):
        super().__init__()
        self.q = nn.Linear(dim, tam, bias=False)
        self.k = nn.Linear(dim, tam, bias=False)
        self.v = nn.Linear(dim, tam, bias=False)
        self.raiz = tam ** 0.5

    def forward(self, x):
        return self.q(x) @ self.k(x).transpose(1, 2) / self.raiz, self.v(x)


class GeneradorPeptidos(nn.Module):
    """Capa de un generador autorregresivo de péptidos, x: (lote, largo, dim).

    Varias cabezas entrenables; en cada una, la posición i reparte un peso total de 1 entre
    las posiciones 0..i (nunca mira los residuos siguientes).
    """

    def __init__(self, dim, cabezas):
        super().__init__()
        self.norma = nn.LayerNorm(dim)
        self.cabezas = [Cabeza(dim, dim // cabezas) for _ in range(cabezas)]
        self.salida = nn.Linear(dim, dim)

    def forward(self, x):
        h = self.norma(x)
        largo = x.shape[1]
        pares = [c(h) for c in self.cabezas]
        s = torch.stack([p[0] for p in pares], dim=1)
        v = torch.stack([p[1] for p in pares], dim=1)
        tapado = torch.ones(largo, largo, dtype=torch.bool, device=x.device).triu(2)
        s = s.masked_fill(tapado, torch.finfo(s.dtype).min)
        w = torch.softmax(s, dim=1)
        y = (w @ v).transpose(1, 2).flatten(2)
        return x + self.salida(y)
