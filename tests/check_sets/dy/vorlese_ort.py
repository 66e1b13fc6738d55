"""Vorlesedienst: ortsabhaengige Aufmerksamkeit (location-sensitive, Tacotron 2), ein Schritt.

OrtsAufmerksamkeit(zustand, kodierung, dim, filter, breite)
forward(s, h, laenge, summe) -> (kontext, gewichte, summe_neu)
    s       (B, zustand)      Zustand des Dekoders
    h       (B, T, kodierung) kodierter Text, rechts aufgefuellt
    laenge  (B,) int          echte Zeichen, mindestens 1
    summe   (B, T)            Summe der Gewichte aller frueheren Schritte (am Anfang Nullen)
Energie  e_t = v . tanh(W s + V h_t + U f_t + b),  f = Faltung der Summe;
die Gewichte sind der Softmax ueber die echten Zeichen, der Kontext die gewichtete Summe von h.
"""
import torch
import torch.nn as nn


class OrtsAufmerksamkeit(nn.Module):
    def __init__(self, zustand, kodierung, dim, filter=8, breite=5):
        super().__init__()
        self.W = nn.Linear(zustand, dim, bias=False)
        self.V = nn.Linear(kodierung, dim, bias=True)
        self.U = nn.Linear(filter, dim, bias=False)
        self.faltung = nn.Conv1d(1, filter, breite, padding=breite // 2, bias=False)
        self.v = nn.Linear(dim, 1, bias=False)

    def forward(self, s, h, laenge, summe):
        f = self.faltung(summe.unsqueeze(1)).transpose(1, 2)
        e = self.v(torch.tanh(self.W(s).unsqueeze(1) + self.V(h) + self.U(f))).squeeze(-1)
        leer = torch.arange(h.size(1), device=h.device)[None, :] >= laenge[:, None]
        e = e.masked_fill(leer, float("-inf"))
        gewichte = torch.softmax(e, dim=-1)
        kontext = torch.bmm(gewichte.unsqueeze(1), h).squeeze(1)
        return kontext, gewichte, summe + gewichte
