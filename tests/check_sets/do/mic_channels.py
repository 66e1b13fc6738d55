"""Channel attention for ad-hoc microphone arrays.

spec    (B, T, M, F)  features of M microphones, per frame
alive   (B, M)  bool  True = microphone is connected (>= 1 per recording)

In each frame every microphone listens to the connected ones.  Memory layout of
the score tensor, because the beamformer that follows wants it like that:
    score[b, t, h, n, m] : n = microphone that is listened to (key),
                           m = microphone that listens (query)
so the columns (fixed m, running n) are what is normalised to one.
Output (B, T, M, F), independent of the numbering of the microphones apart
from the order of the output.
"""
import torch
from torch import nn


class MicAttention(nn.Module):
    def __init__(self, feat, heads=2, d=8):
        super().__init__()
        self.heads, self.d = heads, d
        self.ask = nn.Linear(feat, heads * d, bias=False)
        self.offer = nn.Linear(feat, heads * d, bias=False)
        self.signal = nn.Linear(feat, heads * d, bias=False)
        self.back = nn.Linear(heads * d, feat)

    def forward(self, spec, alive):
        shape = spec.shape[:3] + (self.heads, self.d)
        ask = self.ask(spec).view(shape)
        offer = self.offer(spec).view(shape)
        signal = self.signal(spec).view(shape)

        score = torch.einsum("btnhd,btmhd->bthnm", offer, ask) / self.d ** 0.5
        score = score.masked_fill(~alive[:, None, None, :, None], float("-inf"))
        w = score.softmax(dim=-2)
        heard = torch.einsum("bthnm,btnhd->btmhd", w, signal)
        return spec + self.back(heard.flatten(3))
