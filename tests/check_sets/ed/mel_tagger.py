"""Sound event tagger on log-mel frames.

mel     float (B, mels, T); frames past the end of a clip are filled with zeros
frames  long (B,), the true number of frames of each clip, 1 <= frames <= T
out     (B, tags) raw scores (use a sigmoid)

The front end shortens time by four (rounding up).  The encoder blocks look at the
whole clip in both directions but never at frames past the end of the clip, so a
clip scores the same however much padding its batch brings along.
"""
import torch
from torch import nn


class Block(nn.Module):
    """Pre-norm encoder block. `pad` (B, T): True where there is NO sound (padding)."""

    def __init__(self, width, heads, p):
        super().__init__()
        self.n1 = nn.LayerNorm(width)
        self.att = nn.MultiheadAttention(width, heads, dropout=p, batch_first=True)
        self.n2 = nn.LayerNorm(width)
        self.ff = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(p), nn.Linear(4 * width, width)
        )
        self.drop = nn.Dropout(p)

    def forward(self, x, pad):
        h = self.n1(x)
        h, _ = self.att(h, h, h, key_padding_mask=pad, need_weights=False)
        x = x + self.drop(h)
        return x + self.drop(self.ff(self.n2(x)))


class MelTagger(nn.Module):
    def __init__(self, mels=64, width=96, heads=4, tags=50, depth=2, p=0.1):
        super().__init__()
        # no biases here: silence in, silence out
        self.front = nn.Sequential(
            nn.Conv1d(mels, width, 3, stride=2, padding=1, bias=False), nn.GELU(),
            nn.Conv1d(width, width, 3, stride=2, padding=1, bias=False), nn.GELU(),
        )
        self.blocks = nn.ModuleList(Block(width, heads, p) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, tags)

    def forward(self, mel, frames):
        x = self.front(mel).transpose(1, 2)
        left = (frames + 3) // 4
        pad = torch.arange(x.size(1), device=x.device)[None, :] >= left[:, None]
        for b in self.blocks:
            x = b(x, pad)
        x = self.norm(x).masked_fill(pad[..., None], 0.0)
        return self.out(x.sum(1) / left[:, None])
