# Keyword Transformer for speech commands, post-norm variant
import torch
from torch import nn


class TimeMixer(nn.Module):
    """multi-head self-attention over time frames
    sound: [B, T, width]
    """

    def __init__(self, width=32, ears=4):
        super().__init__()
        self.ears = ears
        self.per_ear = width // ears
        self.fuse_in = nn.Linear(width, 3 * width, bias=False)
        self.fuse_out = nn.Linear(width, width)

    def forward(self, sound):
        B, T, width = sound.shape
        want, have, carry = self.fuse_in(sound).chunk(3, dim=-1)
        want = want.view(B, T, self.ears, self.per_ear).transpose(1, 2)
        have = have.view(B, T, self.ears, self.per_ear).transpose(1, 2)
        carry = carry.view(B, T, self.ears, self.per_ear).transpose(1, 2)

        match = torch.matmul(want, have.transpose(2, 3)) * self.per_ear ** -0.5
        heard = torch.matmul(match.softmax(-1), carry)
        heard = heard.contiguous().view(B, T, width)
        return self.fuse_out(heard)


class PostNorm(nn.Module):
    def __init__(self, width, fn):
        super().__init__()
        self.fn, self.norm = fn, nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + self.fn(x))


class KWT(nn.Module):
    def __init__(self, n_mfcc=40, frames=98, width=32, depth=2, ears=4, n_words=12):
        super().__init__()
        self.embed = nn.Linear(n_mfcc, width)
        self.cls = nn.Parameter(torch.randn(1, 1, width))
        self.pos = nn.Parameter(torch.randn(1, frames + 1, width))
        blocks = []
        for _ in range(depth):
            blocks.append(PostNorm(width, TimeMixer(width, ears)))
            blocks.append(PostNorm(width, nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))))
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(width, n_words)

    def forward(self, mfcc):
        """mfcc: [B, frames, n_mfcc]"""
        x = self.embed(mfcc)
        x = torch.cat([self.cls.repeat(len(x), 1, 1), x], dim=1)
        x = x + self.pos[:, : x.size(1)]
        return self.head(self.blocks(x)[:, 0])
