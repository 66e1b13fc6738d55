"""Wijst de volgende stad van een rondreis aan (pointer-netwerk met een 'glimp', Bello/Kool).

RouteWijzer(d, klem=10.0)

forward(wagen, steden, bezocht)
    wagen    (B, d)        toestand van de bestelwagen
    steden   (B, N, d)     ingebedde steden
    bezocht  (B, N) bool   True = al bezocht, mag niet meer gekozen worden;
                           er is altijd nog minstens een stad over
geeft  logkans (B, N):  log van de kans per stad, -inf voor bezochte steden

1. Glimp: softmax(vraag.sleutel / wortel d) over de NIET bezochte steden, gemiddelde van
   de waarden, lineaire laag.
2. Wijzen: u_n = klem * tanh(glimp.sleutel2_n / wortel d); bezochte steden vallen NA het
   klemmen af; log-softmax over de steden.
"""
import torch
import torch.nn as nn


class RouteWijzer(nn.Module):
    def __init__(self, d, klem=10.0):
        super().__init__()
        self.klem = klem
        self.vraag = nn.Linear(d, d, bias=False)
        self.drie = nn.Linear(d, 3 * d, bias=False)     # sleutel, waarde, sleutel2
        self.na_glimp = nn.Linear(d, d, bias=False)

    def forward(self, wagen, steden, bezocht):
        d = wagen.size(-1)
        sleutel, waarde, sleutel2 = self.drie(steden).tensor_split(3, dim=-1)
        vraag = self.vraag(wagen)

        score = torch.bmm(sleutel, vraag.unsqueeze(2)).squeeze(2).div(d ** 0.5)   # (B, N)
        score[bezocht] = float("-inf")
        gewicht = torch.softmax(score, dim=1)
        glimp = self.na_glimp(torch.bmm(gewicht.unsqueeze(1), waarde))            # (B, 1, d)

        u = torch.bmm(glimp, sleutel2.transpose(1, 2)).squeeze(1).div(d ** 0.5)
        u = self.klem * torch.tanh(u)
        u = u.masked_fill(bezocht, float("-inf"))
        return torch.log_softmax(u, dim=1)
