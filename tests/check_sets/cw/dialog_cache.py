import torch
from torch import nn


def rotary(x, pos, base=10000.0):
    """Half-split rotary embedding; x (B, H, L, D), pos (L,) absolute positions."""
    half = x.shape[-1] // 2
    inv = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    ang = pos.float()[:, None] * inv
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * ang.cos() - b * ang.sin(), b * ang.cos() + a * ang.sin()], dim=-1)


class DialogAttention(nn.Module):
    """Cached causal attention with capped logits for a chat model.

    cfg: dict with dim, heads, cap. `forward(x, cache)` takes the new tokens (B, L, dim)
    and the dict returned last time (None at first). Future tokens get no weight at all, for
    any cap. Processing in several calls equals processing in one.
    """

    def __init__(self, cfg):
        super().__init__()
        self.h, self.cap = cfg["heads"], cfg["cap"]
        self.qkv = nn.Linear(cfg["dim"], 3 * cfg["dim"], bias=False)
        self.out = nn.Linear(cfg["dim"], cfg["dim"], bias=False)

    def forward(self, x, cache=None):
        b, n, c = x.shape
        seen = 0 if cache is None else cache["k"].shape[2]
        q, k, v = (t.view(b, n, self.h, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        pos = torch.arange(n, device=x.device)
        q, k = rotary(q, pos), rotary(k, pos)
        if cache is not None:
            k = torch.cat([cache["k"], k], 2)
            v = torch.cat([cache["v"], v], 2)
        s = q @ k.mT * (c // self.h) ** -0.5
        blocked = torch.ones(n, seen + n, dtype=torch.bool, device=x.device).triu(seen + 1)
        s = s.masked_fill(blocked, float("-inf"))
        s = self.cap * torch.tanh(s / self.cap)
        y = (s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c)
        return self.out(y), {"k": k, "v": v}
