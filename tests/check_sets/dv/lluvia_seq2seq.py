"""Pronóstico de lluvia por estación: codificador GRU, decodificador GRU con atención de Bahdanau."""
import torch
from torch import nn


class AtencionAditiva(nn.Module):
    """puntaje(s, h_j) = v . tanh(W s + U h_j); pesos = softmax sobre los días j de la historia."""

    def __init__(self, oculto, interno):
        super().__init__()
        self.W = nn.Linear(oculto, interno)
        self.U = nn.Linear(oculto, interno, bias=False)
        self.v = nn.Linear(interno, 1, bias=False)

    def forward(self, estado, historia, falta):
        z = torch.tanh(self.W(estado)[:, None] + self.U(historia))
        puntaje = self.v(z)[..., 0]
        puntaje = torch.where(falta, torch.full_like(puntaje, -torch.inf), puntaje)
        pesos = torch.softmax(puntaje, dim=-1)
        return torch.einsum("bj,bjh->bh", pesos, historia), pesos


class PronosticoLluvia(nn.Module):
    """
    serie  : (B, T, F)  mediciones diarias
    falta  : (B, T) bool, True = día sin dato; esos días no reciben peso. Al menos un día es válido.
    pasos  : cuántos días pronosticar
    Devuelve (lluvia, pesos): lluvia (B, pasos), pesos (B, pasos, T) que suman 1 sobre T.
    El primer dato de entrada del decodificador es la lluvia del último día, serie[:, -1, 0].
    """

    def __init__(self, variables=5, oculto=24, interno=16):
        super().__init__()
        self.codificador = nn.GRU(variables, oculto, batch_first=True)
        self.celda = nn.GRUCell(1 + oculto, oculto)
        self.atencion = AtencionAditiva(oculto, interno)
        self.salida = nn.Linear(2 * oculto, 1)

    def forward(self, serie, falta, pasos=3):
        historia, ultimo = self.codificador(serie)
        s = ultimo[0]
        y = serie[:, -1, :1]
        ys, ps = [], []
        for _ in range(pasos):
            contexto, p = self.atencion(s, historia, falta)
            s = self.celda(torch.cat([y, contexto], -1), s)
            y = self.salida(torch.cat([s, contexto], -1))
            ys.append(y)
            ps.append(p)
        return torch.cat(ys, 1), torch.stack(ps, 1)
