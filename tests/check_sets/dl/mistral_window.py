"""Attention fenêtrée (à la Mistral) avec cache dynamique.

sliding_window = W : un jeton voit W jetons au plus, lui-même compris, c.-à-d. lui-même et
les W - 1 qui le précèdent.  Le cache est élagué : seuls les W - 1 derniers jetons peuvent
encore servir au pas suivant, mais on en garde W, ce qui ne gêne pas.
"""
import torch
from torch import nn


class WindowCache:
    def __init__(self, window):
        self.window = window
        self.k = self.v = None
        self.total = 0                      # jetons vus depuis le début

    def update(self, k, v):
        """k, v (B, H, T, d) ; rend les clés, les valeurs et leurs positions absolues."""
        if self.k is not None:
            k, v = torch.cat((self.k, k), 2), torch.cat((self.v, v), 2)
        self.total += k.shape[2] - (0 if self.k is None else self.k.shape[2])
        pos = torch.arange(self.total - k.shape[2], self.total)
        self.k, self.v = k[:, :, -self.window:], v[:, :, -self.window:]
        return k, v, pos


class WindowAttention(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)     # k puis v
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache):
        """x (B, T, dim) : les T jetons suivants (positions déjà ajoutées).  cache :
        WindowCache(window), mis à jour.  Rend (B, T, dim)."""
        b, t, dim = x.shape
        k, v = self.to_kv(x).chunk(2, dim=-1)
        q, k, v = (z.reshape(b, t, self.heads, -1).transpose(1, 2) for z in (self.to_q(x), k, v))
        k, v, pos = cache.update(k, v)
        ecart = pos[-t:, None] - pos[None, :]
        visible = (ecart >= 0) & (ecart <= self.window)
        s = (q @ k.transpose(-1, -2)) / (q.shape[-1] ** 0.5)
        s = s.masked_fill(~visible, float("-inf"))
        y = s.softmax(dim=-1) @ v
        return self.to_out(y.transpose(1, 2).reshape(b, t, dim))
