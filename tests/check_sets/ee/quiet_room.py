"""Microphone array in which a listener is allowed to hear nothing at all.

QuietRoom(d, ears):  d features per microphone, ears = heads

forward(sound, muted=None)
    sound  (M, B, d)        microphone first, then room
    muted  (B, M) bool      True = microphone is muted: nobody hears it
returns (M, B, d)

The share of microphone j in what i hears is exp(s_ij) / (1 + sum_j exp(s_ij)),
s = q.k / sqrt(d / ears): the 1 is the silence of the room ("softmax one"), therefore the
shares add up to LESS than one, on purpose.  If all are muted the ear hears zero.
"""
import torch
from torch import nn


def softmax_one(s, dim):
    peak = s.amax(dim, keepdim=True).clamp(min=0.0)
    e = torch.exp(s - peak)
    return e / (e.sum(dim, keepdim=True) + torch.exp(-peak))


class QuietRoom(nn.Module):
    def __init__(self, d, ears):
        super().__init__()
        self.ears = ears
        self.listen = nn.Linear(d, d)
        self.timbre = nn.Linear(d, d)
        self.content = nn.Linear(d, d)
        self.mix = nn.Linear(d, d, bias=False)

    def forward(self, sound, muted=None):
        M, B, d = sound.shape
        e = d // self.ears

        def fold(t):                                     # (B * ears, M, e)
            return t.contiguous().view(M, B * self.ears, e).transpose(0, 1)

        q, k, v = fold(self.listen(sound)), fold(self.timbre(sound)), fold(self.content(sound))
        s = torch.bmm(q, k.transpose(1, 2)) / e ** 0.5
        if muted is not None:
            s = s.masked_fill(muted.repeat_interleave(self.ears, 0).unsqueeze(1), float("-inf"))
        heard = torch.bmm(softmax_one(s, -1), v)
        heard = heard.transpose(0, 1).reshape(M, B, d)
        return self.mix(heard)
