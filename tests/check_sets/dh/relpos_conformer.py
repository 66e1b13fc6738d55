"""Self-attention half of the Conformer block we train on call-centre audio (8 kHz)."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class EncoderCfg:
    width: int = 32
    n_head: int = 4
    max_dist: int = 12
    p_drop: float = 0.1


class RelDistanceMHSA(nn.Module):
    """Pre-norm multi-head self-attention with a learned bias per head and clipped frame distance.

    frames:  (batch, time, width)
    lengths: (batch,) number of real frames
    returns  (batch, time, width); padded frames pass through unchanged
    """

    def __init__(self, cfg: EncoderCfg = EncoderCfg()):
        super().__init__()
        assert cfg.width % cfg.n_head == 0
        self.cfg = cfg
        self.d = cfg.width // cfg.n_head
        self.norm = nn.LayerNorm(cfg.width)
        self.qkv = nn.Linear(cfg.width, 3 * cfg.width)
        self.out = nn.Linear(cfg.width, cfg.width)
        self.dist = nn.Embedding(2 * cfg.max_dist + 1, cfg.n_head)
        self.drop = nn.Dropout(cfg.p_drop)

    def forward(self, frames, lengths):
        b, t, _ = frames.shape
        m, h = self.cfg.max_dist, self.cfg.n_head
        q, k, v = self.qkv(self.norm(frames)).view(b, t, 3, h, self.d).permute(2, 0, 3, 1, 4)
        pos = torch.arange(t, device=frames.device)
        rel = (pos[None, :] - pos[:, None]).clamp(-m, m) + m
        logits = q @ k.transpose(-2, -1) * self.d ** -0.5
        logits = logits + self.dist(rel).permute(2, 0, 1)
        real = pos[None, :] < lengths[:, None]
        logits = logits.masked_fill(~real[:, None, None, :], torch.finfo(logits.dtype).min)
        mix = self.drop(logits.softmax(dim=-1)) @ v
        y = self.out(mix.transpose(1, 2).reshape(b, t, -1))
        return frames + self.drop(y) * real.unsqueeze(-1)
