"""Getrennte Raum-Zeit-Aufmerksamkeit (TimeSformer, "divided space-time").

Eingabe [B, T, H, W, C]. Zuerst tauscht jedes Bildfeld Information mit demselben
Feld der anderen Zeitpunkte aus, danach mit allen Feldern desselben Zeitpunkts.
Beide Male Restverbindung und LayerNorm davor.
"""
import torch
from torch import nn


class Mehrkopf(nn.Module):
    """Selbstaufmerksamkeit über die vorletzte Achse; alles davor ist Batch."""

    def __init__(self, breite: int, koepfe: int):
        super().__init__()
        self.koepfe = koepfe
        self.qkv = nn.Linear(breite, 3 * breite)
        self.aus = nn.Linear(breite, breite)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        *vorn, n, c = x.shape
        qkv = self.qkv(x).reshape(*vorn, n, 3, self.koepfe, c // self.koepfe)
        q, k, v = (t.transpose(-2, -3) for t in qkv.unbind(-3))   # [..., Kopf, n, d]
        gewicht = torch.softmax(q @ k.mT * (c // self.koepfe) ** -0.5, dim=-1)
        y = (gewicht @ v).transpose(-2, -3).reshape(*vorn, n, c)
        return self.aus(y)


class RaumZeitBlock(nn.Module):
    def __init__(self, breite: int = 24, koepfe: int = 3, faktor: int = 2):
        super().__init__()
        self.norm_zeit = nn.LayerNorm(breite)
        self.zeit = Mehrkopf(breite, koepfe)
        self.norm_raum = nn.LayerNorm(breite)
        self.raum = Mehrkopf(breite, koepfe)
        self.norm_mlp = nn.LayerNorm(breite)
        self.mlp = nn.Sequential(
            nn.Linear(breite, faktor * breite), nn.GELU(), nn.Linear(faktor * breite, breite)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, h, w, c = x.shape
        y = self.norm_zeit(x).permute(0, 2, 3, 1, 4)              # [B, H, W, T, C]
        x = x + self.zeit(y).permute(0, 3, 1, 2, 4)
        y = self.norm_raum(x).flatten(2, 3)                       # [B, T, H*W, C]
        x = x + self.raum(y).view(b, t, h, w, c)
        return x + self.mlp(self.norm_mlp(x))


class Klassifikator(nn.Module):
    def __init__(self, klassen: int = 12, breite: int = 24, tiefe: int = 2, feld: int = 4):
        super().__init__()
        self.felder = nn.Conv2d(3, breite, feld, feld)
        self.bloecke = nn.Sequential(*[RaumZeitBlock(breite) for _ in range(tiefe)])
        self.kopf = nn.Linear(breite, klassen)

    def forward(self, video: torch.Tensor) -> torch.Tensor:
        """video: [B, T, 3, Hoehe, Breite] -> [B, klassen]"""
        b, t = video.shape[:2]
        x = self.felder(video.flatten(0, 1)).unflatten(0, (b, t)).permute(0, 1, 3, 4, 2)
        return self.kopf(self.bloecke(x).mean(dim=(1, 2, 3)))
