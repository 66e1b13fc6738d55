"""Praktikum 4, Aufgabe 2: Multi-Head Self-Attention von Hand.

Vorgabe (Vaswani et al. 2017): Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V je Kopf, die
Softmax läuft über die Schlüssel, Füllzeichen bekommen das Gewicht 0.  Die Abgabe wird gegen
torch.nn.MultiheadAttention geprüft.
"""
import torch
import torch.nn as nn


class Kopfaufmerksamkeit(nn.Module):
    """
    x      (B, T, d_modell)
    maske  (B, T): 1 = echtes Zeichen, 0 = Füllzeichen; in jedem Satz steht mindestens ein Zeichen
    Rückgabe: Ausgabe (B, T, d_modell) und Gewichte (B, h, T, T), deren Zeilen sich zu 1 addieren
    """

    def __init__(self, d_modell: int, h: int):
        super().__init__()
        assert d_modell % h == 0, "d_modell muss durch h teilbar sein"
        self.h = h
        self.d_k = d_modell // h
        self.W_q = nn.Linear(d_modell, d_modell)
        self.W_k = nn.Linear(d_modell, d_modell)
        self.W_v = nn.Linear(d_modell, d_modell)
        self.W_o = nn.Linear(d_modell, d_modell)

    def aufteilen(self, x):
        B, T, _ = x.shape
        return x.view(B, T, self.h, self.d_k).transpose(1, 2)

    def zusammenfuegen(self, x):
        B, h, T, d_k = x.shape
        return x.transpose(1, 2).contiguous().view(B, T, h * d_k)

    def forward(self, x, maske=None):
        Q = self.aufteilen(self.W_q(x))
        K = self.aufteilen(self.W_k(x))
        V = self.aufteilen(self.W_v(x))

        faktor = self.d_k ** -0.5
        punkte = torch.matmul(Q, K.transpose(-2, -1)) / faktor
        if maske is not None:
            weg = (maske == 0).unsqueeze(1).unsqueeze(2)
            punkte = punkte.masked_fill(weg, 1e-9)
        gewichte = torch.softmax(punkte, dim=1)
        return self.W_o(self.zusammenfuegen(torch.matmul(gewichte, V))), gewichte
