"""Streaming-Dekoder mit Ringpuffer: feste Größe, beliebig langer Strom."""
import torch
from torch import nn


def drehen(x, pos, basis=10000.0):
    """x (B, H, d), pos int: Halb-Split-RoPE, Paar (i, i + d/2), Winkel pos * basis^(-2i/d)."""
    d = x.size(-1)
    f = basis ** (-torch.arange(0, d, 2, dtype=x.dtype, device=x.device) / d)
    c, s = torch.cos(pos * f), torch.sin(pos * f)
    a, b = x[..., : d // 2], x[..., d // 2:]
    return torch.cat([a * c - b * s, a * s + b * c], dim=-1)


class Karussell(nn.Module):
    """Ein Token nach dem anderen.

    schritt(x): x (B, D) -> (B, D).  Das Token an Stelle t sieht sich selbst und
    seine W - 1 Vorgänger (am Anfang entsprechend weniger).  Es gibt W Plätze;
    Stelle t liegt auf Platz t mod W, das älteste Token wird überschrieben.
    Skala 1/sqrt(d), d = D / H.  leeren() beginnt einen neuen Strom.
    """

    def __init__(self, D, H, W):
        super().__init__()
        self.H, self.W = H, W
        self.rein = nn.Linear(D, 3 * D, bias=False)      # Zeilen: q, dann k, dann v
        self.raus = nn.Linear(D, D, bias=False)
        self.leeren()

    def leeren(self):
        self.t, self.K, self.V = 0, None, None

    @torch.no_grad()
    def schritt(self, x):
        B, D = x.shape
        q, k, v = (u.view(B, self.H, D // self.H) for u in self.rein(x).split(D, dim=-1))
        if self.K is None:
            self.K = x.new_zeros(B, self.H, self.W, D // self.H)
            self.V = torch.zeros_like(self.K)
        platz = self.t % self.W
        self.K[:, :, platz] = drehen(k, self.t)
        self.V[:, :, platz] = v
        n = min(self.t + 1, self.W)          # gefüllte Plätze sind 0 .. n-1
        s = torch.einsum("bhd,bhwd->bhw", drehen(q, self.t), self.K[:, :, :n])
        p = torch.softmax(s * (D // self.H) ** -0.5, dim=-1)
        y = torch.einsum("bhw,bhwd->bhd", p, self.V[:, :, :n]).reshape(B, D)
        self.t += 1
        return self.raus(y)
