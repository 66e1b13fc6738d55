#!/usr/bin/env python3
"""Ruta de recogida de leche (cooperativa, ~30 tambos) con red de punteros.

Decodificador: en cada paso el camión "apunta" a un tambo no visitado.
Puntaje aditivo de Bahdanau, recortado con C*tanh (Bello et al., 2016).
"""
import torch
import torch.nn as nn

C_RECORTE = 10.0


class Puntero(nn.Module):
    """
    consulta : [B, H]        estado del camión
    tambos   : [B, N, H]     codificación de los tambos
    visitado : [B, N] bool   True = ya recogido, no se puede elegir
    devuelve : (contexto [B, H], prob [B, N])

    El recorte C*tanh(.) se aplica a los puntajes y recién después se enmascara.
    """

    def __init__(self, H, recorte=C_RECORTE):
        super().__init__()
        self.W_c = nn.Linear(H, H)
        self.W_t = nn.Linear(H, H, bias=False)
        self.v = nn.Parameter(torch.empty(H).uniform_(-H ** -0.5, H ** -0.5))
        self.recorte = recorte

    def forward(self, consulta, tambos, visitado=None):
        u = torch.tanh(self.W_c(consulta).unsqueeze(1) + self.W_t(tambos)) @ self.v
        if self.recorte:
            u = self.recorte * torch.tanh(u)
        if visitado is not None:
            u = u.masked_fill(visitado, float("-inf"))
        prob = torch.softmax(u, dim=1)
        contexto = torch.bmm(prob.unsqueeze(1), tambos).squeeze(1)
        return contexto, prob


class RuteadorLechero(nn.Module):
    def __init__(self, H=32):
        super().__init__()
        self.codif = nn.GRU(3, H, batch_first=True)     # x, y, litros
        self.celda = nn.GRUCell(H, H)
        self.vistazo = Puntero(H, recorte=None)         # "glimpse"
        self.puntero = Puntero(H)
        self.inicio = nn.Parameter(torch.zeros(H))

    def forward(self, coords):
        B, N, _ = coords.shape
        tambos, h = self.codif(coords)
        h = h[0]
        entrada = self.inicio.expand(B, -1)
        visitado = torch.zeros(B, N, dtype=torch.bool, device=coords.device)
        ruta, logp = [], 0.0
        for _ in range(N):
            h = self.celda(entrada, h)
            g, _ = self.vistazo(h, tambos, visitado)
            _, p = self.puntero(h + g, tambos, visitado)
            i = p.argmax(1)
            logp = logp + p.gather(1, i[:, None]).squeeze(1).log()
            visitado = visitado.scatter(1, i[:, None], True)   # copia, no in situ
            entrada = tambos[torch.arange(B), i]
            ruta.append(i)
        return torch.stack(ruta, 1), logp


def largo_de_ruta(coords, ruta):
    p = torch.gather(coords[..., :2], 1, ruta[..., None].expand(-1, -1, 2))
    return (p - p.roll(-1, 1)).norm(dim=-1).sum(1)


if __name__ == "__main__":
    torch.manual_seed(0)
    c = torch.rand(4, 9, 3)
    r, lp = RuteadorLechero()(c)
    print(largo_de_ruta(c, r), lp)
