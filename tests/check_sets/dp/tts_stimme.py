"""Sprachsynthese: Decoder-Schritt à la Tacotron mit Bahdanau-Aufmerksamkeit.

    e_j = v . tanh(W q + U m_j)
    alpha = softmax der e_j über die Zeichen j des *eigenen* Satzes
    Kontext = sum_j alpha_j m_j

``Ausrichter(d_q, d_m, d_a)``
    q       : (B, d_q)       Zustand der Attention-RNN
    memory  : (B, T, d_m)    Ausgabe des Zeichen-Encoders
    laengen : (B,) long      echte Zeichen je Satz; der längste Satz hat T
Rückgabe: (kontext (B, d_m), alpha (B, T)).  alpha ist die Ausrichtung zum
Zeichnen der Kurven: Zeilen nicht negativ mit Summe 1, 0 auf der Auffüllung.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Ausrichter(nn.Module):
    def __init__(self, d_q, d_m, d_a=128):
        super().__init__()
        self.query_layer = nn.Linear(d_q, d_a, bias=False)
        self.memory_layer = nn.Linear(d_m, d_a, bias=False)
        self.v = nn.Linear(d_a, 1, bias=False)
        self.score_mask_value = -float("inf")

    def energien(self, q, memory):
        wq = self.query_layer(q).unsqueeze(1)
        wm = self.memory_layer(memory)
        return self.v(torch.tanh(wq + wm)).squeeze(-1)

    def forward(self, q, memory, laengen):
        stelle = torch.arange(memory.size(1), device=memory.device)
        leer = stelle[None, :] >= laengen[:, None]
        ausrichtung = self.energien(q, memory)
        ausrichtung = ausrichtung.masked_fill(leer, self.score_mask_value)
        gewichte = F.softmax(ausrichtung, dim=0)
        kontext = torch.bmm(gewichte.unsqueeze(1), memory).squeeze(1)
        return kontext, ausrichtung
