import torch
from torch import nn


class OrtsAufmerksamkeit(nn.Module):
    """Ortsabhängige additive Aufmerksamkeit für einen Sprachdekoder.

    zustand  (B, dz)      Zustand des Dekoders im laufenden Schritt
    rahmen   (B, T, dr)   Ausgabe des Kodierers
    laengen  (B,)         gültige Rahmen je Aufnahme, mindestens 1
    verlauf  (B, T)       Summe der bisherigen Gewichte, zu Beginn None
    Die Breite der Faltung ist ungerade.
    Rückgabe: kontext (B, dr), gewichte (B, T), neuer verlauf (B, T)
    """

    def __init__(self, dz=12, dr=10, da=16, filter=4, breite=5):
        super().__init__()
        self.wz = nn.Linear(dz, da)
        self.wr = nn.Linear(dr, da, bias=False)
        self.falte = nn.Conv1d(1, filter, breite, padding=breite // 2, bias=False)
        self.wo = nn.Linear(filter, da, bias=False)
        self.v = nn.Linear(da, 1, bias=False)

    def forward(self, zustand, rahmen, laengen, verlauf=None):
        B, T, _ = rahmen.shape
        if verlauf is None:
            verlauf = rahmen.new_zeros(B, T)
        ort = self.falte(verlauf.unsqueeze(1)).transpose(1, 2)
        energie = self.v(torch.tanh(self.wz(zustand).unsqueeze(1) + self.wr(rahmen) + self.wo(ort)))
        energie = energie.squeeze(-1)
        stumm = torch.arange(T, device=rahmen.device)[None, :] >= laengen[:, None]
        gewichte = energie.masked_fill(stumm, float("-inf")).softmax(dim=1)
        kontext = torch.bmm(gewichte.unsqueeze(1), rahmen).squeeze(1)
        return kontext, gewichte, verlauf + gewichte
