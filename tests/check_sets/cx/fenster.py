"""Shifted-window attention for satellite tiles (no position bias)."""
import torch
from torch import nn


class Fenster(nn.Module):
    """Input and output [B, H, W, C]; H and W are multiples of `groesse`.

    With versatz > 0 the grid of windows is moved by `versatz` pixels to the lower right;
    windows cut by the border are kept as separate, smaller windows (no wrap-around).
    """

    def __init__(self, kanaele, koepfe, groesse, versatz=0):
        super().__init__()
        self.koepfe, self.groesse, self.versatz = koepfe, groesse, versatz
        self.qkv = nn.Linear(kanaele, 3 * kanaele)
        self.aus = nn.Linear(kanaele, kanaele)

    def schneiden(self, x):
        b, h, w, c = x.shape
        g = self.groesse
        x = x.reshape(b, h // g, g, w // g, g, c).transpose(2, 3)
        return x.reshape(b, (h // g) * (w // g), g * g, c)

    def kleben(self, x, h, w):
        b, g = x.shape[0], self.groesse
        x = x.reshape(b, h // g, w // g, g, g, -1).transpose(2, 3)
        return x.reshape(b, h, w, -1)

    def gebiete(self, h, w, device):
        g, s = self.groesse, self.versatz
        zeile = torch.arange(h, device=device)
        spalte = torch.arange(w, device=device)
        # pixel r of the original picture lies in window row (r - s) // g, which is -1 at the border
        zr = torch.div(zeile - s, g, rounding_mode="floor") + 1
        zs = torch.div(spalte - s, g, rounding_mode="floor") + 1
        return zr[:, None] * (w // g + 2) + zs[None, :]

    def forward(self, x):
        b, h, w, c = x.shape
        s = self.versatz
        nr = self.gebiete(h, w, x.device)[None, :, :, None]
        if s:
            x = torch.roll(x, (-s, -s), (1, 2))
            nr = torch.roll(nr, (-s, -s), (1, 2))
        f = self.schneiden(x)
        nr = self.schneiden(nr)[0, :, :, 0]                      # [n, g*g]
        gleich = nr[:, :, None] == nr[:, None, :]                # [n, g*g, g*g]
        n, t = f.shape[1], f.shape[2]
        q, k, v = self.qkv(f).reshape(b, n, t, 3, self.koepfe, -1).permute(3, 0, 1, 4, 2, 5)
        a = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        a = a.masked_fill(~gleich[None, :, None], float("-inf")).softmax(-1)
        y = (a @ v).transpose(2, 3).reshape(b, n, t, c)
        y = self.kleben(self.aus(y), h, w)
        return torch.roll(y, (s, s), (1, 2)) if s else y
