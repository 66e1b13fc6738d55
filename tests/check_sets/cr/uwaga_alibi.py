import math

import torch
from torch import nn


def nachylenia(n):
    """Slopes of Press et al., also for a number of heads that is not a power of two."""
    def potega(m):
        start = 2 ** (-8 / m)
        return [start ** (i + 1) for i in range(m)]
    m = 2 ** math.floor(math.log2(n))
    wynik = potega(m)
    if m < n:
        wynik += potega(2 * m)[0::2][: n - m]
    return torch.tensor(wynik)


class UwagaALiBi(nn.Module):
    """Causal self-attention with ALiBi and a growing cache (Polish news LM)."""

    def __init__(self, wymiar, glowy):
        super().__init__()
        self.g, self.d = glowy, wymiar // glowy
        self.wejscie = nn.Linear(wymiar, 3 * wymiar)
        self.wyjscie = nn.Linear(wymiar, wymiar)
        self.register_buffer("m", nachylenia(glowy).view(1, glowy, 1, 1))

    def _podziel(self, t):
        return t.unflatten(-1, (self.g, self.d)).transpose(1, 2)

    def forward(self, x, pamiec=None):
        """x: (B, L, wymiar) the newest tokens; pamiec: (k, v) of the tokens before them."""
        q, k, v = map(self._podziel, self.wejscie(x).chunk(3, dim=-1))
        if pamiec is not None:
            k = torch.cat((pamiec[0], k), dim=2)
            v = torch.cat((pamiec[1], v), dim=2)
        ile_q, ile_k = q.size(2), k.size(2)
        poz_q = torch.arange(ile_k - ile_q, ile_k, device=x.device).unsqueeze(1)
        poz_k = torch.arange(ile_k, device=x.device).unsqueeze(0)
        wagi = q @ k.mT / math.sqrt(self.d) + self.m * (poz_k - poz_q)
        wagi = wagi.masked_fill(poz_k > poz_q, -math.inf).softmax(-1)
        y = (wagi @ v).transpose(1, 2).flatten(2)
        return self.wyjscie(y), (k, v)
