"""Kleiner Vision Transformer mit Attention Rollout.

Begleitcode zum Seminarvortrag "Was sieht ein ViT?". Das Netz ist ein normaler
Pre-Norm-ViT mit CLS-Token; zusätzlich zu den Logits kann es den Rollout nach
Abnar & Zuidema (2020) ausgeben:

    R_0 = I,   R_l = A'_l R_{l-1},   A'_l = (Mittel der Köpfe + I) / 2

Zeile 0 des Ergebnisses (ohne Spalte 0) sagt, wie stark jeder Bildausschnitt in
das CLS-Token einfließt.
"""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, breite, koepfe, faktor=2):
        super().__init__()
        assert breite % koepfe == 0
        self.koepfe = koepfe
        self.n1, self.n2 = nn.LayerNorm(breite), nn.LayerNorm(breite)
        self.qkv = nn.Linear(breite, 3 * breite)
        self.raus = nn.Linear(breite, breite)
        self.mlp = nn.Sequential(nn.Linear(breite, faktor * breite), nn.GELU(),
                                 nn.Linear(faktor * breite, breite))

    def forward(self, x):
        B, N, C = x.shape
        # (B, N, 3, Köpfe, d) -> drei Tensoren (B, Köpfe, N, d)
        q, k, v = self.qkv(self.n1(x)).reshape(B, N, 3, self.koepfe, -1).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.mT * (C // self.koepfe) ** -0.5, dim=-1)
        y = (a @ v).transpose(1, 2).flatten(2)
        x = x + self.raus(y)
        return x + self.mlp(self.n2(x)), a


class KleinerViT(nn.Module):
    def __init__(self, bild=16, kachel=4, kanaele=3, breite=24, koepfe=3, tiefe=2, klassen=10):
        super().__init__()
        self.zerlegen = nn.Conv2d(kanaele, breite, kachel, stride=kachel)
        anzahl = (bild // kachel) ** 2
        self.cls = nn.Parameter(torch.zeros(1, 1, breite))
        self.pos = nn.Parameter(torch.randn(1, anzahl + 1, breite) * 0.02)
        self.bloecke = nn.ModuleList(Block(breite, koepfe) for _ in range(tiefe))
        self.norm = nn.LayerNorm(breite)
        self.kopf = nn.Linear(breite, klassen)

    def forward(self, bilder, mit_rollout=False):
        x = self.zerlegen(bilder).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.pos
        eins = torch.eye(x.size(1), dtype=x.dtype, device=x.device)
        rollout = eins.expand(len(x), -1, -1)
        for block in self.bloecke:
            x, a = block(x)
            if mit_rollout:
                rollout = (0.5 * (a.mean(dim=1) + eins)) @ rollout
        logits = self.kopf(self.norm(x)[:, 0])
        return (logits, rollout[:, 0, 1:]) if mit_rollout else logits


if __name__ == "__main__":
    netz = KleinerViT().eval()
    with torch.no_grad():
        logits, karte = netz(torch.rand(2, 3, 16, 16), mit_rollout=True)
    print(logits.shape, karte.view(2, 4, 4).sum((1, 2)))
