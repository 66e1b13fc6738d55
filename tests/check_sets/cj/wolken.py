"""Wolkenmaske aus Satellitenbildern (Sentinel-2), Teil des Praktikums Fernerkundung.

Der Codierer ist klein, damit er auf dem Laptop trainiert.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Faltblock(nn.Module):
    def __init__(self, rein, raus):
        super().__init__()
        self.faltung = nn.Conv2d(rein, raus, 3, padding=1)
        self.norm = nn.GroupNorm(4, raus)

    def forward(self, bild):
        return F.gelu(self.norm(self.faltung(bild)))


class Raumblick(nn.Module):
    """Jeder Bildpunkt schaut auf alle Bildpunkte (nicht kausal, keine Maske).

    Eingabe und Ausgabe: (B, C, H, W). Die Koepfe teilen sich die Kanaele.
    """

    def __init__(self, kanaele=32, koepfe=4):
        super().__init__()
        assert kanaele % koepfe == 0
        self.koepfe = koepfe
        self.breite = kanaele // koepfe
        self.norm = nn.GroupNorm(4, kanaele)
        self.dreifach = nn.Conv2d(kanaele, 3 * kanaele, 1, bias=False)
        self.zurueck = nn.Conv2d(kanaele, kanaele, 1)

    def forward(self, bild):
        b, c, h, w = bild.shape
        teile = self.dreifach(self.norm(bild)).view(b, 3, self.koepfe, self.breite, h * w)
        frage, merkmal, inhalt = teile.unbind(1)
        frage = frage * self.breite ** -0.5
        # Punkte: (B, Koepfe, Frage-Pixel, Merkmal-Pixel)
        naehe = torch.einsum("bkci,bkcj->bkij", frage, merkmal)
        anteil = naehe.softmax(dim=-1)
        neu = torch.einsum("bkij,bkcj->bkci", anteil, inhalt)
        return bild + self.zurueck(neu.reshape(b, c, h, w))


class Wolkennetz(nn.Module):
    """(B, baender, H, W) -> Logits (B, 1, H, W); H und W durch 4 teilbar."""

    def __init__(self, baender=4, kanaele=32, koepfe=4):
        super().__init__()
        self.oben = Faltblock(baender, kanaele)
        self.unten = Faltblock(kanaele, kanaele)
        self.blick = Raumblick(kanaele, koepfe)
        self.kopf = nn.Conv2d(2 * kanaele, 1, 1)

    def forward(self, x):
        fein = self.oben(x)
        grob = self.unten(F.avg_pool2d(fein, 4))
        grob = self.blick(grob)
        gross = F.interpolate(grob, size=fein.shape[-2:], mode="bilinear", align_corners=False)
        return self.kopf(torch.cat([fein, gross], dim=1))
