"""Streaming-Encoder für Sensordaten (EKG, 250 Hz), blockweise mit Gedächtnis.

Jeder neue Block von Abtastfenstern sieht sich selbst vollständig (in beide
Richtungen) und dazu die letzten `memory` Fenster davor. Lage kennt das Netz nur
durch einen symmetrischen ALiBi-Abzug: Kopf h zieht m_h * |i - j| ab, wobei i und j
die Lage von Anfrage und Schlüssel auf der gemeinsamen Zeitachse sind und
m_h = 2^(-8h/n), h = 1..n. Fenster mit abgefallener Elektrode (`ok` = False) werden
von niemandem gelesen.
"""
import torch
import torch.nn as nn


class StreamingLayer(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.o = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        h = torch.arange(1, heads + 1)
        self.register_buffer("m", 2.0 ** (-8.0 * h / heads))

    def forward(self, block, past, ok):
        # block (B, T, C) neu, past (B, M, C) Gedächtnis, ok (B, M + T)
        B, T, C = block.shape
        d = C // self.heads
        alles = self.norm1(torch.cat([past, block], dim=1))
        S = alles.size(1)
        q = self.q(alles[:, S - T:]).view(B, T, self.heads, d)
        k, v = self.kv(alles).view(B, S, 2, self.heads, d).unbind(2)

        scores = torch.einsum("bthd,bshd->bhts", q, k) * d ** -0.5
        i = torch.arange(T, device=block.device)
        j = torch.arange(S, device=block.device)
        abstand = (i[:, None] - j[None, :]).abs()
        scores = scores - self.m[None, :, None, None] * abstand
        scores.masked_fill(~ok[:, None, None, :], float("-inf"))
        p = scores.softmax(dim=-1)

        y = torch.einsum("bhts,bshd->bthd", p, v).reshape(B, T, C)
        x = block + self.o(y)
        return x + self.ff(self.norm2(x))


class StreamingEncoder(nn.Module):
    """encoder(block, ok, state) -> (features, state); state=None beim ersten Block."""

    def __init__(self, n_leads=3, width=32, heads=4, depth=2, memory=6):
        super().__init__()
        self.memory = memory
        self.inp = nn.Linear(n_leads, width)
        self.layers = nn.ModuleList(StreamingLayer(width, heads) for _ in range(depth))

    def forward(self, block, ok, state=None):
        x = self.inp(block)
        if state is None:
            leer = x[:, :0]
            state = ([leer] * len(self.layers), ok[:, :0])
        pasts, ok_past = state
        sichtbar = torch.cat([ok_past, ok], dim=1)
        neu = []
        for layer, past in zip(self.layers, pasts):
            neu.append(torch.cat([past, x], dim=1)[:, -self.memory:].detach())
            x = layer(x, past, sichtbar)
        return x, (neu, sichtbar[:, -self.memory:])


if __name__ == "__main__":
    enc, state = StreamingEncoder().eval(), None
    for _ in range(3):
        ok = torch.rand(2, 5) > 0.2
        y, state = enc(torch.randn(2, 5, 3), ok, state)
        print(y.shape, state[1].shape)
