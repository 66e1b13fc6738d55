import torch
from torch import nn


class Erinnerung(nn.Module):
    """Decoder self-attention with a growing key/value store.

    neu:      (B, T, breite), the next T tokens
    speicher: dict, filled by this call and handed in again at the next; {} to begin
    Every token reads itself and all tokens before it, the stored ones included.
    """

    def __init__(self, breite=24, koepfe=3):
        super().__init__()
        self.koepfe = koepfe
        self.frage = nn.Linear(breite, breite)
        self.schluessel = nn.Linear(breite, breite)
        self.wert = nn.Linear(breite, breite)
        self.ende = nn.Linear(breite, breite)

    def _teile(self, t):
        return t.unflatten(-1, (self.koepfe, -1)).transpose(1, 2)

    def forward(self, neu, speicher):
        f = self._teile(self.frage(neu))
        s = self._teile(self.schluessel(neu))
        w = self._teile(self.wert(neu))
        if speicher:
            s = torch.cat([speicher["s"], s], dim=2)
            w = torch.cat([speicher["w"], w], dim=2)
        speicher["s"], speicher["w"] = s, w
        punkte = torch.einsum("bhtd,bhsd->bhts", f, s) / f.shape[-1] ** 0.5
        sichtbar = torch.ones(punkte.shape[-2:], device=neu.device).tril().bool()
        punkte = punkte.masked_fill(~sichtbar, float("-inf"))
        aus = torch.einsum("bhts,bhsd->bthd", punkte.softmax(-1), w)
        return self.ende(aus.flatten(2))
