import torch
import torch.nn as nn


class DekoderSchritt(nn.Module):
    """Ein Schritt des Dekoders (Bahdanau et al., 2015).

    wort:    (B,)        letztes Wort
    zustand: (B, H)      voriger Zustand der GRU-Zelle
    quelle:  (B, S, 2H)  Ausgaben des bidirektionalen Kodierers
    leer:    (B, S)      True = Fuellzeichen
    """

    def __init__(self, vokabular=50, einbettung=16, H=24):
        super().__init__()
        self.emb = nn.Embedding(vokabular, einbettung)
        self.W_s = nn.Linear(H, H, bias=False)
        self.U_h = nn.Linear(2 * H, H)
        self.v = nn.Linear(H, 1, bias=False)
        self.zelle = nn.GRUCell(einbettung + 2 * H, H)
        self.aus = nn.Linear(einbettung + 3 * H, vokabular)

    def gewichte(self, zustand, quelle, leer):
        energie = self.v(torch.tanh(self.W_s(zustand)[:, None, :] + self.U_h(quelle)))
        energie = energie.squeeze(-1)
        energie = energie.masked_fill(leer, torch.finfo(energie.dtype).min)
        return energie.softmax(dim=1)

    def forward(self, wort, zustand, quelle, leer):
        e = self.emb(wort)
        a = self.gewichte(zustand, quelle, leer)
        kontext = torch.bmm(a[:, None, :], quelle)[:, 0]
        zustand = self.zelle(torch.cat([e, kontext], -1), zustand)
        logits = self.aus(torch.cat([e, kontext, zustand], -1))
        return logits, zustand, a
