"""Fangstmeldinger fra fiskefartøy -> forventet fangst pr. sone.

Soner (spørrere) leser meldinger (minne). Meldinger eldre enn `maks_alder` dager
skal ikke brukes; den nyeste meldingen er alltid yngre enn det."""

import torch
import torch.nn as nn


class Oppmerksomhet(nn.Module):
    def __init__(self, d_sone, d_melding, hoder=2, d_hode=6):
        super().__init__()
        self.hoder, self.d = hoder, d_hode
        self.sp = nn.Linear(d_sone, hoder * d_hode)
        self.nk = nn.Linear(d_melding, hoder * d_hode)
        self.vd = nn.Linear(d_melding, hoder * d_hode)
        self.ut = nn.Linear(hoder * d_hode, d_sone)

    def del_opp(self, t):
        return t.unflatten(2, (self.hoder, self.d)).transpose(1, 2)

    def forward(self, sone, melding, for_gammel):
        s, n, v = self.del_opp(self.sp(sone)), self.del_opp(self.nk(melding)), self.del_opp(self.vd(melding))
        straff = torch.zeros(for_gammel.shape, dtype=s.dtype, device=s.device)
        straff = straff.masked_fill(for_gammel, -torch.inf)[:, None, None]
        treff = torch.baddbmm(
            straff.expand(-1, self.hoder, s.size(2), -1).flatten(0, 1),
            s.flatten(0, 1), n.flatten(0, 1).transpose(1, 2), alpha=self.d ** -0.5,
        )
        vekt = treff.softmax(dim=2)
        svar = torch.bmm(vekt, v.flatten(0, 1)).unflatten(0, (-1, self.hoder))
        return self.ut(svar.permute(0, 2, 1, 3).flatten(2))


class Fangstmodell(nn.Module):
    """sone (B, S, 10), melding (B, M, 8), alder (B, M) i dager -> (B, S) tonn."""

    def __init__(self, maks_alder=14.0):
        super().__init__()
        self.maks_alder = maks_alder
        self.les = Oppmerksomhet(10, 8)
        self.tonn = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1), nn.Softplus())

    def forward(self, sone, melding, alder):
        y = sone + self.les(sone, melding, alder > self.maks_alder)
        return self.tonn(y).squeeze(-1)
