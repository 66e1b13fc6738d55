import torch
import torch.nn as nn


class AVFusion(nn.Module):
    """Two-way fusion of lip video and audio for a speech emotion hobby project.

    video (B, Tv, dv) with vlen (B,), audio (B, Ta, da) with alen (B,); lengths >= 1.
    Returns one vector per clip, (B, 2 * dim).
    """

    def __init__(self, dv=20, da=12, dim=16, heads=4, drop=0.1):
        super().__init__()
        self.pv, self.pa = nn.Linear(dv, dim), nn.Linear(da, dim)
        self.v_from_a = nn.MultiheadAttention(dim, heads, dropout=drop, batch_first=True)
        self.a_from_v = nn.MultiheadAttention(dim, heads, dropout=drop, batch_first=True)
        self.nv, self.na = nn.LayerNorm(dim), nn.LayerNorm(dim)

    @staticmethod
    def too_late(length, n):
        return torch.arange(n, device=length.device)[None, :] >= length[:, None]

    @staticmethod
    def mean(x, late):
        keep = (~late).unsqueeze(-1).to(x.dtype)
        return (x * keep).sum(1) / keep.sum(1)

    def forward(self, video, vlen, audio, alen):
        v, a = self.pv(video), self.pa(audio)
        lv, la = self.too_late(vlen, v.size(1)), self.too_late(alen, a.size(1))
        dv, _ = self.v_from_a(v, a, a, key_padding_mask=la, need_weights=False)
        da, _ = self.a_from_v(a, v, v, key_padding_mask=lv, need_weights=False)
        v, a = self.nv(v + dv), self.na(a + da)
        return torch.cat([self.mean(v, lv), self.mean(a, la)], dim=-1)
