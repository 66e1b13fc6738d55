"""Valenzrahmen: zu einem Verb werden der Reihe nach die Kasusrollen ausgegeben.

ValenzDekoder(rollen, d)      rollen = Zahl der Rollen, d = Merkmalsbreite

Achsen: (Zeit, Batch, Merkmal), wie in unseren alten Theano-Skripten.

forward(bisher, satz, laenge)
    bisher  (T, B) long       bisher ausgegebene Rollen (Teacher forcing)
    satz    (S, B, d)         kodierter Satz, hinten aufgefuellt
    laenge  (B,) long         Zahl der echten Woerter je Satz, mindestens 1
Ausgabe:
    logits  (T, B, rollen)
    blick   (T, B, S)         Gewichte ueber die echten Woerter, Summe 1

In jedem Schritt: h_t aus der GRU-Zelle; Punktzahl h_t^T W x_s ("general" nach Luong,
ohne Temperatur); Softmax ueber die echten Woerter; Kontext c_t;
Zustand a_t = tanh(V [c_t; h_t]); daraus die Logits.
"""
import torch
from torch import nn


class ValenzDekoder(nn.Module):
    def __init__(self, rollen, d):
        super().__init__()
        self.tafel = nn.Embedding(rollen, d)
        self.zelle = nn.GRUCell(d, d)
        self.W = nn.Linear(d, d, bias=False)
        self.V = nn.Linear(2 * d, d, bias=False)
        self.aus = nn.Linear(d, rollen)

    def forward(self, bisher, satz, laenge):
        S = satz.shape[0]
        wort = torch.arange(S, device=satz.device)[:, None]        # (S, 1)
        leer = wort >= laenge[None, :]                             # (S, B)
        gedreht = self.W(satz)
        h = satz.new_zeros(satz.shape[1:])
        logits, blicke = [], []
        for rolle in self.tafel(bisher):                           # (B, d)
            h = self.zelle(rolle, h)
            punkte = (gedreht * h).sum(-1)                         # (S, B)
            punkte = punkte.masked_fill(leer, float("-inf"))
            blick = punkte.softmax(0)
            c = (blick.unsqueeze(-1) * satz).sum(0)                # (B, d)
            a = torch.tanh(self.V(torch.cat([c, h], -1)))
            logits.append(self.aus(a))
            blicke.append(blick.t())
        return torch.stack(logits), torch.stack(blicke)
