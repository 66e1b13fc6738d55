"""Red puntero para rutas de reparto (un solo camión).

El decodificador es una GRU; en cada paso hace un vistazo ("glimpse") aditivo
sobre las paradas y después señala la siguiente parada.

visitada: bool [lote, n], True = ya visitada = se oculta.
Los logits del puntero se limitan con  C * tanh(u)  ANTES de ocultar lo visitado,
como en Bello et al. (2016), C = 10.
"""
import torch
from torch import nn


class Puntero(nn.Module):
    """u_j = v . tanh(W_q q + W_r r_j)"""

    def __init__(self, dim):
        super().__init__()
        self.W_q = nn.Linear(dim, dim, bias=False)
        self.W_r = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, 1, bias=False)

    def forward(self, q, refs):
        suma = self.W_q(q)[:, None, :] + self.W_r(refs)
        return self.v(torch.tanh(suma)).squeeze(-1)      # [lote, n]


class RutaPuntero(nn.Module):
    """Decodificación voraz: paradas [lote, n, 2] -> (ruta [lote, n], log_p [lote])"""

    def __init__(self, dim=32, C=10.0):
        super().__init__()
        self.C = C
        self.entrada = nn.Linear(2, dim)
        self.codificador = nn.GRU(dim, dim, batch_first=True)
        self.celda = nn.GRUCell(dim, dim)
        self.vistazo = Puntero(dim)
        self.puntero = Puntero(dim)
        self.inicio = nn.Parameter(torch.randn(dim) * dim ** -0.5)

    def elegir(self, h, refs, visitada):
        """log-probabilidades de la próxima parada, [lote, n]"""
        g = self.vistazo(h, refs).masked_fill(visitada, float("-inf"))
        peso = torch.softmax(g, dim=1)
        contexto = torch.bmm(peso[:, None, :], refs)[:, 0]
        u = self.C * torch.tanh(self.puntero(contexto, refs))
        u = u.masked_fill(visitada, float("-inf"))
        return torch.log_softmax(u, dim=1)

    def forward(self, paradas):
        lote, n, _ = paradas.shape
        x = self.entrada(paradas)
        refs, h = self.codificador(x)
        h = h[0]
        visitada = torch.zeros(lote, n, dtype=torch.bool, device=paradas.device)
        paso = self.inicio.expand(lote, -1)
        filas = torch.arange(lote, device=paradas.device)
        ruta, total = [], paradas.new_zeros(lote)
        for _ in range(n):
            h = self.celda(paso, h)
            logp = self.elegir(h, refs, visitada)
            j = logp.argmax(dim=1)
            total = total + logp[filas, j]
            ruta.append(j)
            nueva = torch.zeros_like(visitada)
            nueva[filas, j] = True
            visitada = visitada | nueva
            paso = x[filas, j]
        return torch.stack(ruta, dim=1), total
