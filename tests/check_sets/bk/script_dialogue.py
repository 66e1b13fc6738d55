"""
Who speaks next?  Turn prediction in film scripts.

numpy: reading the script and building masks;  torch: the model.
"""
import math
import re

import numpy as np
import torch
from torch import nn

CUE = re.compile(r"^\s{10,}([A-Z][A-Z .']+)$")


def cast_of(script):
    """'INT. BAR ...' -> sequence of speaker names, in order of their cues."""
    return [m.group(1).strip() for m in map(CUE.match, script.splitlines()) if m]


def scene_mask(scene_ids):
    """(T,) scene number of each turn -> (T, T) bool numpy array: turn i may look at
    turn j if both belong to the same scene and j is not later than i."""
    s = np.asarray(scene_ids)
    same = s[:, None] == s[None, :]
    return same & np.tri(len(s), dtype=bool)


class TurnAttention(nn.Module):
    """Scaled dot-product attention with several heads.

    x    (B, T, C)
    keep (T, T) or (B, T, T) bool numpy array, True = turn i may look at turn j
    """

    def __init__(self, c, heads):
        super().__init__()
        self.heads, self.d = heads, c // heads
        self.q, self.k, self.v = nn.Linear(c, c), nn.Linear(c, c), nn.Linear(c, c)
        self.fc = nn.Linear(c, c)

    def forward(self, x, keep=None):
        b, t, c = x.shape
        q = self.q(x).view(b, t, self.heads, self.d).permute(0, 2, 1, 3)
        k = self.k(x).view(b, t, self.heads, self.d).permute(0, 2, 1, 3)
        v = self.v(x).view(b, t, self.heads, self.d).permute(0, 2, 1, 3)
        scores = q.matmul(k.transpose(-1, -2))
        scores = scores / math.sqrt(self.heads)
        if keep is not None:
            m = torch.from_numpy(np.asarray(keep)).to(x.device)
            m = m.view(-1, 1, t, t)
            scores.masked_fill(~m, float("-inf"))
        attn = scores.softmax(-1)
        ctx = attn.matmul(v)
        ctx = ctx.reshape(b, t, c)
        return self.fc(ctx)


class NextSpeaker(nn.Module):
    def __init__(self, n_speakers, c=32, heads=4):
        super().__init__()
        self.who = nn.Embedding(n_speakers, c)
        self.att = TurnAttention(c, heads)
        self.ln = nn.LayerNorm(c)
        self.out = nn.Linear(c, n_speakers)

    def forward(self, speakers, scene_ids):
        x = self.who(speakers)
        x = self.ln(x + self.att(x, scene_mask(scene_ids)))
        return self.out(x)


def batches(ids, size, rng):
    ids = np.asarray(ids)
    starts = rng.permutation(max(len(ids) - size, 1))
    for s in starts:
        yield torch.from_numpy(ids[s:s + size])[None]


if __name__ == "__main__":
    net = NextSpeaker(6)
    turns = torch.randint(0, 6, (1, 8))
    print(net(turns, [0, 0, 0, 1, 1, 1, 1, 2]).shape)
