# EEG motor imagery (BCI IV-2a), conv stem + transformer encoder.
# Scaled dot-product attention: softmax(Q K^T / sqrt(d_k)) V, d_k = size of one head.
import torch
import torch.nn as nn
from torch import Tensor


class PatchStem(nn.Module):
    def __init__(self, n_chan=22, emb=40):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, emb, (1, 25)),
            nn.Conv2d(emb, emb, (n_chan, 1)),
            nn.BatchNorm2d(emb),
            nn.ELU(),
            nn.AvgPool2d((1, 75), (1, 15)),
            nn.Dropout(0.5),
        )
        self.project = nn.Conv2d(emb, emb, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.project(self.net(x)).flatten(2).transpose(1, 2)


class EEGAttention(nn.Module):
    def __init__(self, emb_size, num_heads, dropout):
        super().__init__()
        self.emb_size = emb_size
        self.num_heads = num_heads
        self.keys = nn.Linear(emb_size, emb_size)
        self.queries = nn.Linear(emb_size, emb_size)
        self.values = nn.Linear(emb_size, emb_size)
        self.att_drop = nn.Dropout(dropout)
        self.projection = nn.Linear(emb_size, emb_size)

    def split(self, t: Tensor) -> Tensor:
        b, n, _ = t.shape
        return t.view(b, n, self.num_heads, -1).permute(0, 2, 1, 3)     # b h n d

    def forward(self, x: Tensor, mask: Tensor = None) -> Tensor:
        """mask: bool [b, n], True = clean segment, False = artefact (not attended)"""
        queries = self.split(self.queries(x))
        keys = self.split(self.keys(x))
        values = self.split(self.values(x))
        energy = torch.einsum("bhqd, bhkd -> bhqk", queries, keys)
        d_k = keys.size(2)
        energy = energy / d_k ** 0.5
        if mask is not None:
            energy = energy.masked_fill(~mask[:, None, None, :], torch.finfo(energy.dtype).min)
        att = self.att_drop(energy.softmax(dim=-1))
        out = torch.einsum("bhal, bhlv -> bhav", att, values)
        out = out.permute(0, 2, 1, 3).flatten(2)
        return self.projection(out)


class ResidualAdd(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x, **kw):
        return x + self.fn(x, **kw)


class EncoderBlock(nn.Module):
    def __init__(self, emb=40, heads=10, p=0.5, expansion=4):
        super().__init__()
        self.n1 = nn.LayerNorm(emb)
        self.att = EEGAttention(emb, heads, p)
        self.ff = ResidualAdd(nn.Sequential(
            nn.LayerNorm(emb), nn.Linear(emb, expansion * emb), nn.GELU(),
            nn.Dropout(p), nn.Linear(expansion * emb, emb), nn.Dropout(p)))

    def forward(self, x, mask=None):
        x = x + self.att(self.n1(x), mask)
        return self.ff(x)


class EEGFormer(nn.Module):
    def __init__(self, n_chan=22, emb=40, depth=6, n_classes=4):
        super().__init__()
        self.stem = PatchStem(n_chan, emb)
        self.blocks = nn.ModuleList([EncoderBlock(emb) for _ in range(depth)])
        self.cls = nn.Sequential(nn.LayerNorm(emb), nn.Linear(emb, n_classes))

    def forward(self, x):
        x = self.stem(x)
        for b in self.blocks:
            x = b(x)
        return self.cls(x.mean(1))
