"""Chatbot de atencion al cliente (TFG). GPT pequeno con estado por capa.

El estado de cada capa es un dict {"k": ..., "v": ...} con los turnos anteriores en orden
cronologico; asi no hay que volver a procesar toda la conversacion.
"""
import torch
from torch import nn
import torch.nn.functional as F


class AtencionConEstado(nn.Module):
    def __init__(self, dim, cabezas):
        super().__init__()
        self.cabezas = cabezas
        self.entrada = nn.Linear(dim, dim * 3)
        self.salida = nn.Linear(dim, dim)

    def forward(self, x, estado):
        """Causal. x son solo las fichas nuevas; estado se actualiza con ellas."""
        n, t, d = x.shape
        q, k, v = self.entrada(x).view(n, t, 3, self.cabezas, -1).permute(2, 0, 3, 1, 4)
        previo = 0
        if "k" in estado:
            previo = estado["k"].size(2)
            k = torch.cat((estado["k"], k), dim=2)
            v = torch.cat((v, estado["v"]), dim=2)
        estado["k"], estado["v"] = k, v
        puntos = q @ k.transpose(2, 3) * q.size(-1) ** -0.5
        i = torch.arange(previo, previo + t, device=x.device)
        j = torch.arange(previo + t, device=x.device)
        puntos = puntos.masked_fill(j[None, :] > i[:, None], float("-inf"))
        y = puntos.softmax(-1) @ v
        return self.salida(y.transpose(1, 2).reshape(n, t, d))


class Capa(nn.Module):
    def __init__(self, dim, cabezas, p):
        super().__init__()
        self.at = AtencionConEstado(dim, cabezas)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.red = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), nn.Dropout(p))

    def forward(self, x, estado):
        x = x + self.at(self.n1(x), estado)
        return x + self.red(self.n2(x))


class Charla(nn.Module):
    def __init__(self, vocab, dim=96, cabezas=6, capas=3, contexto=512, p=0.1):
        super().__init__()
        self.ficha = nn.Embedding(vocab, dim)
        self.lugar = nn.Embedding(contexto, dim)
        self.capas = nn.ModuleList([Capa(dim, cabezas, p) for _ in range(capas)])
        self.norma = nn.LayerNorm(dim)
        self.contexto = contexto

    def estado_vacio(self):
        return [dict() for _ in self.capas]

    def forward(self, ids, estados=None):
        estados = self.estado_vacio() if estados is None else estados
        ini = estados[0]["k"].size(2) if estados[0] else 0
        pos = torch.arange(ini, ini + ids.size(1), device=ids.device)
        x = self.ficha(ids) + self.lugar(pos)
        for c, e in zip(self.capas, estados):
            x = c(x, e)
        return F.linear(self.norma(x), self.ficha.weight), estados


class Sesion:
    """una conversacion abierta con un cliente"""

    def __init__(self, modelo, codificar, decodificar, fin):
        self.m, self.cod, self.dec, self.fin = modelo.eval(), codificar, decodificar, fin
        self.estados = modelo.estado_vacio()

    @torch.no_grad()
    def responder(self, texto, maximo=40):
        logits, _ = self.m(torch.tensor([self.cod(texto)]), self.estados)
        resp = []
        while len(resp) < maximo:
            s = int(logits[0, -1].argmax())
            if s == self.fin:
                break
            resp.append(s)
            logits, _ = self.m(torch.tensor([[s]]), self.estados)
        return self.dec(resp)
