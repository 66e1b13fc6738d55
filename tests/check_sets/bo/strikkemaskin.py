"""Strikkemaskin-språkmodell: forutsi neste maske (r, vr, kast, fell, ...).

Glidende vindu: mønsterrapporten gjentar seg, så en maske trenger bare å se
de siste `vindu` maskene (seg selv medregnet).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

MASKER = ["rett", "vrang", "kast", "2rsm", "ov.trekk", "fl.hø", "fl.ve", "slutt"]


def vindusmaske(n_q: int, n_k: int, vindu: int, device=None):
    """True = får se. Siste spørring står rett over siste nøkkel.

    Med vindu=3 ser maske i nøklene i-2, i-1 og i.
    """
    i = torch.arange(n_q, device=device).unsqueeze(1) + (n_k - n_q)
    j = torch.arange(n_k, device=device).unsqueeze(0)
    return (j <= i) & (i - j < vindu)


class Rullebuffer:
    """Holder bare det vinduet trenger; eldre masker kastes."""

    def __init__(self, vindu: int):
        self.vindu, self.k, self.v = vindu, None, None

    def legg_til(self, k, v):
        if self.k is not None:
            k = torch.cat([self.k, k], dim=2)
            v = torch.cat([self.v, v], dim=2)
        # neste kall trenger høyst vindu-1 gamle nøkler
        behold = max(self.vindu - 1, 0)
        start = max(k.shape[2] - behold, 0)
        self.k, self.v = k[:, :, start:], v[:, :, start:]
        return k, v


class Vindusoppmerksomhet(nn.Module):
    """x: (B, L, D) -> (B, L, D), kausal med glidende vindu."""

    def __init__(self, d_modell=32, hoder=4, vindu=3):
        super().__init__()
        self.hoder, self.vindu = hoder, vindu
        self.inn = nn.Linear(d_modell, 3 * d_modell)
        self.ut = nn.Linear(d_modell, d_modell)

    def nytt_buffer(self):
        return Rullebuffer(self.vindu)

    def forward(self, x, buffer=None):
        B, L, D = x.shape
        q, k, v = self.inn(x).chunk(3, dim=-1)
        q, k, v = (t.view(B, L, self.hoder, -1).transpose(1, 2) for t in (q, k, v))
        if buffer is not None:
            k, v = buffer.legg_til(k, v)
        ser = vindusmaske(L, k.shape[2], self.vindu, x.device)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=ser)
        return self.ut(y.transpose(1, 2).reshape(B, L, D))


class Strikkemodell(nn.Module):
    def __init__(self, d=32, lag=2, vindu=3):
        super().__init__()
        self.emb = nn.Embedding(len(MASKER), d)
        self.lag = nn.ModuleList(Vindusoppmerksomhet(d, vindu=vindu) for _ in range(lag))
        self.hode = nn.Linear(d, len(MASKER))

    def forward(self, t, buffere=None):
        h = self.emb(t)
        for n, l in enumerate(self.lag):
            h = h + l(h, None if buffere is None else buffere[n])
        return self.hode(h)

    @torch.no_grad()
    def strikk(self, start, antall):
        buf = [l.nytt_buffer() for l in self.lag]
        ut, t = [], start
        for _ in range(antall):
            t = self(t, buf)[:, -1:].argmax(-1)
            ut.append(t)
        return torch.cat(ut, 1)
