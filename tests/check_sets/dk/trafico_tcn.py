"""Predicción de tráfico en autopista: red convolucional temporal con compuertas.

TCN(n_sensores, canales, capas, n_mezcla)(x): x [B, T, n_sensores] -> parámetros de una
mezcla de gaussianas para el siguiente paso y cada sensor:
    peso [B, n_sensores, K] (suma 1), media [B, n_sensores, K], sigma > 0

Convoluciones causales dilatadas (solo a la izquierda), compuerta tanh * sigmoid como en
WaveNet; se usa el último instante.
"""
import torch
from torch import nn
import torch.nn.functional as F


class Bloque(nn.Module):
    def __init__(self, c, dilatacion, nucleo=2):
        super().__init__()
        self.izq = (nucleo - 1) * dilatacion
        self.filtro = nn.Conv1d(c, c, nucleo, dilation=dilatacion)
        self.puerta = nn.Conv1d(c, c, nucleo, dilation=dilatacion)
        self.mezcla = nn.Conv1d(c, c, 1)

    def forward(self, x):
        p = F.pad(x, (self.izq, 0))
        h = torch.tanh(self.filtro(p)) * torch.sigmoid(self.puerta(p))
        return x + self.mezcla(h)


class TCN(nn.Module):
    def __init__(self, n_sensores, canales=16, capas=4, n_mezcla=3):
        super().__init__()
        self.K, self.n = n_mezcla, n_sensores
        self.entrada = nn.Conv1d(n_sensores, canales, 1)
        self.bloques = nn.ModuleList([Bloque(canales, 2 ** i) for i in range(capas)])
        self.salida = nn.Linear(canales, n_sensores * n_mezcla * 3)

    def forward(self, x):
        h = self.entrada(x.transpose(1, 2))
        for b in self.bloques:
            h = b(h)
        q, k, v = self.salida(h[:, :, -1]).view(-1, self.n, 3, self.K).unbind(2)
        return torch.softmax(q, dim=-1), k, F.softplus(v) + 1e-3


def nll(peso, media, sigma, y):
    """y [B, n_sensores]"""
    comp = torch.distributions.Normal(media, sigma).log_prob(y.unsqueeze(-1))
    return -torch.logsumexp(peso.log() + comp, dim=-1).mean()
