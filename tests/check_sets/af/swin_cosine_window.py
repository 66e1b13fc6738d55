# Window attention with scaled cosine similarity and log-spaced continuous position bias
# (Swin V2, section 3.2 / 3.3), used as encoder of the ocean eddy segmentation net.
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def to_windows(x, w):
    B, H, W, C = x.shape
    return x.view(B, H // w, w, W // w, w, C).transpose(2, 3).reshape(-1, w * w, C)


def from_windows(x, w, H, W):
    C = x.shape[-1]
    return x.view(-1, H // w, W // w, w, w, C).transpose(2, 3).reshape(-1, H, W, C)


class CosineWindowAttention(nn.Module):
    r"""Sim(q_i, k_j) = cos(q_i, k_j) / tau + B_ij, with one learned tau per head (not below 0.01)."""

    def __init__(self, dim, window, heads, hidden=64):
        super().__init__()
        self.heads, self.window = heads, window
        self.logit_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
        self.cpb = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, heads, bias=False))
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

        r = torch.arange(-(window - 1), window, dtype=torch.float32)
        table = torch.stack(torch.meshgrid(r, r, indexing="ij"), -1) * 8 / max(window - 1, 1)
        self.register_buffer("table", torch.sign(table) * torch.log2(table.abs() + 1) / 3, persistent=False)
        c = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = c[:, :, None] - c[:, None, :] + window - 1
        self.register_buffer("rel", rel[0] * (2 * window - 1) + rel[1], persistent=False)

    def bias(self):
        t = self.cpb(self.table).view(-1, self.heads)
        n = self.window ** 2
        return 16 * torch.sigmoid(t[self.rel.view(-1)].view(n, n, self.heads).permute(2, 0, 1))

    def forward(self, x, mask=None):
        """x [num_windows*B, n, C]; mask [num_windows, n, n] with 0 / -inf."""
        Bw, n, C = x.shape
        q, k, v = self.qkv(x).view(Bw, n, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        tau_inv = self.logit_scale.clamp(max=math.log(1 / 0.01)).exp()
        attn = F.normalize(q) @ F.normalize(k).transpose(-2, -1) * tau_inv
        attn = attn + self.bias()
        if mask is not None:
            nw = mask.size(0)
            attn = (attn.view(-1, nw, self.heads, n, n) + mask[None, :, None]).view(-1, self.heads, n, n)
        attn = attn.softmax(-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(Bw, n, C))


def shift_mask(H, W, w, s):
    img = torch.zeros(1, H, W, 1)
    cuts = (slice(0, -w), slice(-w, -s), slice(-s, None))
    n = 0
    for a in cuts:
        for b in cuts:
            img[:, a, b] = n
            n += 1
    ids = to_windows(img, w).squeeze(-1)
    other = ids[:, None] != ids[:, :, None]
    return torch.zeros(other.shape).masked_fill(other, float("-inf"))


class ShiftedBlock(nn.Module):
    def __init__(self, dim, heads, window=4, shift=2):
        super().__init__()
        self.w, self.s = window, shift
        self.attn = CosineWindowAttention(dim, window, heads)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        B, H, W, C = x.shape
        y = torch.roll(x, (-self.s, -self.s), (1, 2)) if self.s else x
        m = shift_mask(H, W, self.w, self.s).to(x) if self.s else None
        y = from_windows(self.attn(to_windows(y, self.w), m), self.w, H, W)
        y = torch.roll(y, (self.s, self.s), (1, 2)) if self.s else y
        x = x + self.n1(y)
        return x + self.n2(self.mlp(x))


if __name__ == "__main__":
    print(ShiftedBlock(32, 4)(torch.randn(2, 8, 12, 32)).shape)
