"""What is folded and laid in few places: lines of an image that are samples; and what a memory is opened with."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import torch
from torch import nn


class Axial(nn.Module):
    """field: (B, C, H, W) -> (B, C, H, W), along the rows, then along the columns.

    gap (B, H, W) bool, True = no data; such pixels are not attended to.
    """

    def __init__(self, C, heads=4):
        super().__init__()
        self.along_w = nn.MultiheadAttention(C, heads, batch_first=True)
        self.along_h = nn.MultiheadAttention(C, heads, batch_first=True)

    @staticmethod
    def lines(x, gap, mha):
        B, n, L, C = x.shape
        y = x.reshape(B * n, L, C)
        if gap is None:
            return x + mha(y, y, y, need_weights=False)[0].view(B, n, L, C)
        h = gap.reshape(B * n, L)
        empty = h.all(dim=1)
        hides = h & ~empty[:, None]
        y = mha(y, y, y, key_padding_mask=hides, need_weights=False)[0]
        return x + y.masked_fill(empty[:, None, None], 0.0).view(B, n, L, C)

    def forward(self, field, gap=None):
        x = self.lines(field.permute(0, 2, 3, 1), gap, self.along_w)
        gap = None if gap is None else gap.transpose(1, 2)
        return self.lines(x.transpose(1, 2), gap, self.along_h).permute(0, 3, 2, 1)


class Memory(nn.Module):
    def __init__(self, hid, dim):
        super().__init__()
        self.ask, self.key = nn.Linear(hid, dim), nn.Linear(dim, dim)

    def open(self, frames, k):
        self.frames, self.keys = frames, self.key(frames)
        at = torch.arange(frames.size(1), device=frames.device)
        self.gone = at.unsqueeze(0) >= k.unsqueeze(1)

    def forward(self, s):
        e = torch.bmm(self.keys, self.ask(s).unsqueeze(2)).squeeze(2) / self.keys.size(2) ** 0.5
        a = e.masked_fill(self.gone, float("-inf")).softmax(1)
        return torch.bmm(a.unsqueeze(1), self.frames).squeeze(1)


class Decoder(nn.Module):
    """words (B, L) ids, frames (B, U, dim), k (B,) how many frames are real."""

    def __init__(self, vocab=20, emb=12, dim=24, hid=24):
        super().__init__()
        self.emb, self.cell = nn.Embedding(vocab, emb), nn.GRUCell(emb + dim, hid)
        self.memory, self.char = Memory(hid, dim), nn.Linear(hid + dim, vocab)

    def forward(self, words, frames, k):
        self.memory.open(frames, k)
        c, s = frames.new_zeros(len(frames), frames.size(2)), frames.new_zeros(len(frames), self.cell.hidden_size)
        out = []
        for t in range(words.size(1)):
            s = self.cell(torch.cat([self.emb(words[:, t]), c], 1), s)
            c = self.memory(s)
            out.append(self.char(torch.cat([s, c], 1)))
        return torch.stack(out, 1)
'''

BOTH = [
    ("Axial", "hides = h & ~empty[:, None]", "hides = ~h & h.any(dim=1)[:, None]", {"mask_inverted": "key_padding_mask"}),
    ("Decoder", "at.unsqueeze(0) >= k", "at.unsqueeze(0) < k", {"mask_inverted": "self.gone"}),
]
test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
