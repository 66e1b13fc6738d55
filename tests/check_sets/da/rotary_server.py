from dataclasses import dataclass
import torch
from torch import nn


@dataclass
class ServerConfig:
    width: int = 32
    heads: int = 4
    theta: float = 10000.0
    max_tokens: int = 128


class ServerLayer(nn.Module):
    """Causal self-attention with rotary positions and a growing cache.

    step(x, memory): x (B, T, width); memory None or (k, v) of earlier calls,
    keys stored after rotation.  Returns y and the new memory.
    """

    def __init__(self, cfg=None):
        super().__init__()
        cfg = cfg or ServerConfig()
        self.cfg, self.hd = cfg, cfg.width // cfg.heads
        self.qkv = nn.Linear(cfg.width, 3 * cfg.width, bias=False)
        self.back = nn.Linear(cfg.width, cfg.width, bias=False)
        inv = cfg.theta ** (-torch.arange(0, self.hd, 2).float() / self.hd)
        ang = torch.outer(torch.arange(cfg.max_tokens).float(), inv)
        ang = torch.cat([ang, ang], dim=-1)
        self.register_buffer("cos", ang.cos(), persistent=False)
        self.register_buffer("sin", ang.sin(), persistent=False)

    def rotate(self, t, pos):
        a, b = t.chunk(2, dim=-1)
        return t * self.cos[pos] + torch.cat([-b, a], dim=-1) * self.sin[pos]

    def forward(self, x, memory=None):
        B, T, _ = x.shape
        past = 0 if memory is None else memory[0].shape[2]
        q, k, v = self.qkv(x).view(B, T, 3, self.cfg.heads, self.hd).permute(2, 0, 3, 1, 4)
        pos = torch.arange(T, device=x.device)
        q, k = self.rotate(q, pos), self.rotate(k, pos)
        if memory is not None:
            k, v = torch.cat([memory[0], k], 2), torch.cat([memory[1], v], 2)
        s = q @ k.mT / self.hd ** 0.5
        later = torch.arange(past + T)[None, :] > torch.arange(past, past + T)[:, None]
        s = s.masked_fill(later.to(x.device), float("-inf"))
        y = s.softmax(-1) @ v
        return self.back(y.transpose(1, 2).flatten(2)), (k, v)

    step = forward
