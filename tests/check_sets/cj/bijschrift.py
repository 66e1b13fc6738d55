"""Bijschriften voor museumfoto's: het woordmodel kijkt naar de beeldvakken (stage 2023)."""
import torch
import torch.nn as nn


class Kijker(nn.Module):
    """Kruisaandacht van woorden naar beeldvakken, geschaalde inproducten.

    woorden (B, W, maat), vakken (B, V, maat),
    verborgen (B, V) bool: True = vak valt buiten de lijst en telt niet mee.
    Geeft de nieuwe woorden en de kaart (B, hoofden, W, V): per woord de
    kansverdeling over de vakken, die tonen we in de zaal.
    """

    def __init__(self, maat=32, hoofden=4):
        super().__init__()
        self.hoofden = hoofden
        self.stuk = maat // hoofden
        self.vraag = nn.Linear(maat, maat)
        self.sleutel = nn.Linear(maat, maat)
        self.waarde = nn.Linear(maat, maat)
        self.uit = nn.Linear(maat, maat)

    def knip(self, t):
        return t.view(t.shape[0], -1, self.hoofden, self.stuk).transpose(1, 2)

    def forward(self, woorden, vakken, verborgen=None):
        v = self.knip(self.vraag(woorden))
        s = self.knip(self.sleutel(vakken))
        w = self.knip(self.waarde(vakken))
        kaart = v @ s.transpose(-1, -2) / s.size(-2) ** 0.5
        if verborgen is not None:
            kaart.masked_fill(verborgen[:, None, None, :], float("-inf"))
        gewicht = kaart.softmax(dim=-1)
        samen = (gewicht @ w).transpose(1, 2).flatten(2)
        return self.uit(samen), kaart


class Bijschrijver(nn.Module):
    """woorden (B, W) nummers, foto (B, V, kenmerken) -> logits (B, W, woorden), kaart"""

    def __init__(self, woorden=80, kenmerken=20, maat=32, hoofden=4):
        super().__init__()
        self.woord = nn.Embedding(woorden, maat)
        self.vak = nn.Linear(kenmerken, maat)
        self.lees = nn.GRU(maat, maat, batch_first=True)
        self.kijk = Kijker(maat, hoofden)
        self.norm = nn.LayerNorm(maat)
        self.kies = nn.Linear(maat, woorden)

    def forward(self, woorden, foto, verborgen=None):
        h, _ = self.lees(self.woord(woorden))
        gezien, kaart = self.kijk(h, self.vak(foto), verborgen)
        return self.kies(self.norm(h + gezien)), kaart
