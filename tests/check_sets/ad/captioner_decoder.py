"""Show-attend-and-tell style caption decoder over detected regions."""
from typing import List, Tuple

import torch
import torch.nn as nn


class RegionLook(nn.Module):
    """Bahdanau scores of one decoder state against all regions of its image.

    h        (B, hid)
    regions  (B, R, feat)
    n_boxes  (B,) how many of the R regions exist; the detector gives at least one
    """

    def __init__(self, hid: int, feat: int, att: int):
        super().__init__()
        self.from_h = nn.Linear(hid, att, bias=False)
        self.from_r = nn.Linear(feat, att)
        self.energy = nn.Linear(att, 1, bias=False)

    def forward(self, h, regions, n_boxes):
        mix = torch.tanh(self.from_r(regions) + self.from_h(h)[:, None])
        e = self.energy(mix)[..., 0]
        slot = torch.arange(regions.shape[1], device=regions.device)
        e = torch.where(slot[None] < n_boxes[:, None], e, e.new_tensor(-torch.inf))
        a = e.softmax(1)
        return torch.einsum("br,brf->bf", a, regions), a


class Captioner(nn.Module):
    def __init__(self, vocab: int, emb: int = 64, hid: int = 128, feat: int = 96, att: int = 80):
        super().__init__()
        self.table = nn.Embedding(vocab, emb)
        self.look = RegionLook(hid, feat, att)
        self.cell = nn.LSTMCell(emb + feat, hid)
        self.beta = nn.Linear(hid, feat)
        self.h0 = nn.Linear(feat, hid)
        self.c0 = nn.Linear(feat, hid)
        self.word = nn.Linear(hid + feat, vocab)

    def start(self, regions, n_boxes):
        there = torch.arange(regions.size(1), device=regions.device)[None] < n_boxes[:, None]
        m = (regions * there[..., None]).sum(1) / n_boxes[:, None]
        return self.h0(m).tanh(), self.c0(m).tanh()

    def forward(self, words, regions, n_boxes) -> Tuple[torch.Tensor, torch.Tensor]:
        h, c = self.start(regions, n_boxes)
        logits: List[torch.Tensor] = []
        maps: List[torch.Tensor] = []
        for t in range(words.size(1)):
            ctx, a = self.look(h, regions, n_boxes)
            ctx = torch.sigmoid(self.beta(h)) * ctx
            h, c = self.cell(torch.cat((self.table(words[:, t]), ctx), -1), (h, c))
            logits.append(self.word(torch.cat((h, ctx), -1)))
            maps.append(a)
        return torch.stack(logits, 1), torch.stack(maps, 1)
