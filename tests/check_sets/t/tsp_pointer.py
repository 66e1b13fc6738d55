import torch
import torch.nn as nn


class PointerDecoder(nn.Module):
    """Decoder of the attention model for TSP (Kool et al.): glimpse, then pointer.

    visited marks the cities that are already in the tour; they must not be chosen again
    and the glimpse does not look at them either.
    """

    def __init__(self, dim=32, heads=4, clip=10.0):
        super().__init__()
        self.h, self.dk, self.clip = heads, dim // heads, clip
        self.ctx = nn.Linear(3 * dim, dim, bias=False)
        self.proj = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def step(self, emb, first, last, visited):
        """
        emb:         (B, N, dim) encoder output per city
        first, last: (B,) indices of the first and of the latest city
        visited:     (B, N) bool, True = already in the tour
        returns      (B, N) log-probabilities of the next city
        """
        B, N, D = emb.shape
        r = torch.arange(B, device=emb.device)
        q = self.ctx(torch.cat([emb.mean(1), emb[r, first], emb[r, last]], -1))
        k, v, pk = self.proj(emb).chunk(3, dim=-1)
        q = q.view(B, self.h, 1, self.dk)
        k = k.view(B, N, self.h, self.dk).transpose(1, 2)
        v = v.view(B, N, self.h, self.dk).transpose(1, 2)
        s = q @ k.transpose(-2, -1) / self.dk**0.5
        s = s.masked_fill(~visited[:, None, None, :], float("-inf"))
        g = self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(B, 1, D))
        u = (g @ pk.transpose(1, 2)).squeeze(1) / D**0.5
        u = self.clip * torch.tanh(u)
        u = u.masked_fill(visited, float("-inf"))
        return u.log_softmax(-1)
