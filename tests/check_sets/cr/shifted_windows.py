from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class WindowCfg:
    dim: int = 32
    heads: int = 4
    window: int = 4
    shift: int = 2


class ShiftedWindowAttention(nn.Module):
    """(S)W-MSA of Swin Transformer.

    The map (B, H, W, C) is rolled by `shift`, cut into window x window tiles and
    attention runs inside each tile.  Pixels that only became neighbours because of
    the cyclic roll must not see each other.  H and W are multiples of the window.
    """

    def __init__(self, cfg: WindowCfg):
        super().__init__()
        self.cfg = cfg
        w = cfg.window
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.dim)
        self.bias_table = nn.Parameter(torch.randn((2 * w - 1) ** 2, cfg.heads) * 0.02)
        ij = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        rel = ij[:, :, None] - ij[:, None, :] + w - 1
        self.register_buffer("rel_index", rel[0] * (2 * w - 1) + rel[1], persistent=False)

    def _tiles(self, x):
        B, H, W, C = x.shape
        w = self.cfg.window
        x = x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(B, (H // w) * (W // w), w * w, C)

    def _regions(self, H, W, device):
        w, s = self.cfg.window, self.cfg.shift
        ids = torch.zeros(1, H, W, 1, device=device)
        if s == 0:
            return self._tiles(ids).squeeze(-1)
        cuts = (slice(0, -w), slice(-w, -s), slice(-s, None))
        n = 0
        for a in cuts:
            for b in cuts:
                ids[:, a, b] = n
                n += 1
        return self._tiles(ids).squeeze(-1)  # (1, tiles, w*w)

    def forward(self, x):
        B, H, W, C = x.shape
        h, w, s = self.cfg.heads, self.cfg.window, self.cfg.shift
        t = self._tiles(torch.roll(x, (-s, -s), (1, 2)))
        nT, n = t.shape[1], w * w
        q, k, v = self.qkv(t).view(B, nT, n, 3, h, C // h).permute(3, 0, 1, 4, 2, 5)
        logits = (q * (C // h) ** -0.5) @ k.transpose(-2, -1)
        logits = logits + self.bias_table[self.rel_index].permute(2, 0, 1)
        r = self._regions(H, W, x.device)
        foreign = r.unsqueeze(-1) != r.unsqueeze(-2)
        logits = logits.masked_fill(foreign.unsqueeze(2), float("-inf"))
        y = logits.softmax(-1) @ v
        y = self.out(y.transpose(2, 3).reshape(B, nT, n, C))
        y = y.view(B, H // w, W // w, w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)
        return torch.roll(y, (s, s), (1, 2))
