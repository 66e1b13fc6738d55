"""Automatic mixing of orchestral stems.

stems (B, S, D): S = stems of a session (violins I, violins II, oboes, ...), padded.
used  (B, S):    True = this stem exists.

Every stem hears all the others and predicts gain, pan and reverb send.
"""
from collections import OrderedDict

import torch
import torch.nn as nn

SECTIONS = OrderedDict(
    strings=["vl1", "vl2", "vla", "vc", "cb"],
    winds=["fl", "ob", "cl", "fg"],
    brass=["hn", "tp", "tb", "tu"],
    rest=["timp", "perc", "harp", "choir"],
)


def stem_ids():
    return {n: i for i, n in enumerate(n for s in SECTIONS.values() for n in s)}


class Ensemble(nn.Module):
    """Pre-norm block on nn.MultiheadAttention.

    Note that torch's ``key_padding_mask`` is True where a key is to be IGNORED.
    """

    def __init__(self, dim, heads, dropout=0.0):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mha = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, used):
        h = self.n1(x)
        y, _ = self.mha(h, h, h, key_padding_mask=~used, need_weights=False)
        x = x + y
        return x + self.ff(self.n2(x))


class MixDesk(nn.Module):
    def __init__(self, dim=64, heads=4, depth=2):
        super().__init__()
        self.kind = nn.Embedding(len(stem_ids()), dim)
        self.blocks = nn.ModuleList([Ensemble(dim, heads) for _ in range(depth)])
        self.gain, self.pan, self.send = (nn.Linear(dim, 1) for _ in range(3))

    def forward(self, stems, kind, used):
        h = stems + self.kind(kind)
        for b in self.blocks:
            h = b(h, used)
        db = 12.0 * torch.tanh(self.gain(h)).squeeze(-1)
        return {
            "gain": torch.where(used, 10 ** (db / 20), torch.zeros_like(db)),
            "pan": torch.tanh(self.pan(h)).squeeze(-1),
            "send": torch.sigmoid(self.send(h)).squeeze(-1),
        }


def mixdown(audio, mix):
    """audio (B, S, N) mono stems -> stereo (B, 2, N), constant-power panning."""
    theta = (mix["pan"] + 1) * torch.pi / 4
    left, right = mix["gain"] * theta.cos(), mix["gain"] * theta.sin()
    return torch.stack([(left[..., None] * audio).sum(1), (right[..., None] * audio).sum(1)], 1)


if __name__ == "__main__":
    desk = MixDesk()
    used = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    mix = desk(torch.randn(2, 5, 64), torch.randint(0, 17, (2, 5)), used)
    print(mixdown(torch.randn(2, 5, 100), mix).shape)
