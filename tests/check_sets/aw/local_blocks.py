# long-document encoder for patents: each block of `bs` tokens sees itself and the block before it
# (causal inside that range).  No L x L matrix is ever built.
import math
import torch
from torch import nn
import torch.nn.functional as F


class LookBackBlockAttention(nn.Module):
    def __init__(self, d_model: int, n_head: int, bs: int):
        super().__init__()
        self.n_head, self.bs = n_head, bs
        self.in_proj = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        B, L, D = x.shape
        bs, H = self.bs, self.n_head
        pad = -L % bs
        xp = F.pad(x, (0, 0, 0, pad))
        nb = xp.shape[1] // bs
        qkv = self.in_proj(xp).reshape(B, nb, bs, 3, H, D // H)
        q, k, v = qkv.permute(3, 0, 4, 1, 2, 5).unbind(0)          # B H nb bs d

        def with_previous(t):
            prev = F.pad(t, (0, 0, 0, 0, 1, 0))[:, :, :-1]
            return torch.cat((prev, t), dim=3)                      # B H nb 2bs d

        k2, v2 = with_previous(k), with_previous(v)
        s = torch.einsum("bhnid,bhnjd->bhnij", q, k2) / math.sqrt(D // H)
        i = torch.arange(bs, device=x.device)[:, None]
        j = torch.arange(2 * bs, device=x.device)[None, :]
        ok = (j - bs <= i).expand(nb, bs, 2 * bs).clone()           # True = may look
        ok[0, :, :bs] = False                                       # nothing before the first block
        s = s.masked_fill(~ok, torch.finfo(s.dtype).min)
        p = s.softmax(-1)
        o = torch.einsum("bhnij,bhnjd->bhnid", p, v2)
        o = o.permute(0, 2, 3, 1, 4).reshape(B, nb * bs, D)[:, :L]
        return self.out_proj(o)


class PatentLayer(nn.Module):
    def __init__(self, d=32, h=4, bs=8):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mix = LookBackBlockAttention(d, h, bs)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.mix(self.ln1(x))
        return x + self.ff(self.ln2(x))
