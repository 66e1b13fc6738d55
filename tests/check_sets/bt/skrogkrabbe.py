# skrogkrabbe: robot som rengjør skipsskrog under vann.
# Ekkolodd + trykk + hjulstrøm leses 10 ganger i sekundet; modellen spår glidning.
# Grupperte nøkler fordi brettet (Jetson Nano) har lite minne.
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Oppsett:
    inn: int = 9
    bredde: int = 32
    hoder: int = 4          # spørrehoder
    nokkelhoder: int = 2    # nøkkel-/verdihoder; spørrehode h bruker h // (hoder // nokkelhoder)
    lag: int = 2

    @property
    def d(self):
        return self.bredde // self.hoder

    @property
    def gruppe(self):
        return self.hoder // self.nokkelhoder


class Hodedeler(nn.Module):
    """Lineær + oppdeling: [B, T, bredde] -> [B, hoder, T, d]"""

    def __init__(self, inn, hoder, d):
        super().__init__()
        self.hoder, self.d = hoder, d
        self.w = nn.Linear(inn, hoder * d, bias=False)

    def forward(self, x):
        return self.w(x).view(x.size(0), x.size(1), self.hoder, self.d).transpose(1, 2)


class Utvider:
    """Gjentar hvert nøkkelhode slik at det passer til spørrehodene."""

    def __init__(self, o):
        self.o = o

    def __call__(self, t):
        b, _, lengde, d = t.shape
        return t.repeat_interleave(self.o.gruppe, dim=2).reshape(b, self.o.hoder, lengde, d)


class GruppertBlikk(nn.Module):
    """Kausalt: tidspunkt t ser t og alt før. x [B, T, bredde] -> [B, T, bredde]"""

    def __init__(self, o: Oppsett):
        super().__init__()
        self.o = o
        self.q = Hodedeler(o.bredde, o.hoder, o.d)
        self.k = Hodedeler(o.bredde, o.nokkelhoder, o.d)
        self.v = Hodedeler(o.bredde, o.nokkelhoder, o.d)
        self.utvid = Utvider(o)
        self.ut = nn.Linear(o.bredde, o.bredde, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.q(x), self.utvid(self.k(x)), self.utvid(self.v(x))
        poeng = q @ k.transpose(-1, -2) / self.o.d ** 0.5
        frem = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        vekt = poeng.masked_fill(frem, -torch.inf).softmax(-1)
        return self.ut((vekt @ v).transpose(1, 2).reshape(b, t, -1))


class Blokk(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(o.bredde), nn.LayerNorm(o.bredde)
        self.blikk = GruppertBlikk(o)
        self.ff = nn.Sequential(nn.Linear(o.bredde, 64), nn.GELU(), nn.Linear(64, o.bredde))

    def forward(self, x):
        x = x + self.blikk(self.n1(x))
        return x + self.ff(self.n2(x))


class Glidevarsler(nn.Module):
    def __init__(self, o: Oppsett = Oppsett()):
        super().__init__()
        self.inn = nn.Linear(o.inn, o.bredde)
        self.blokker = nn.Sequential(*[Blokk(o) for _ in range(o.lag)])
        self.ut = nn.Linear(o.bredde, 1)

    def forward(self, maling):
        return self.ut(self.blokker(self.inn(maling))).sigmoid().squeeze(-1)


if __name__ == "__main__":
    print(Glidevarsler()(torch.randn(2, 12, 9)).shape)
