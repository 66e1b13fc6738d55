"""ストリーミング推論用のアテンション層(GQA + RoPE + KV キャッシュ)。

    x      (B, T, D)  新しく届いた T 個のトークン(T は毎回違ってよい)
    cache  None または (K, V)、各 (B, Hkv, 過去の長さ, d)。K は回転済み。
    返り値 (y (B, T, D), 新しい cache)

n 個のトークンを一度に入れても、分割して順に入れても、結果は同じになる。
RoPE は half-split 方式で、最初のトークンの位置が 0。因果的。
クエリヘッド h は KV ヘッド h // (H / Hkv) を使う(隣り合うヘッドが KV を共有)。
"""
import torch
from torch import nn
import torch.nn.functional as F


def kaiten(x, start, base=10000.0):
    T, d = x.shape[-2:]
    pos = torch.arange(start, start + T, device=x.device, dtype=torch.float32)
    freq = base ** (-torch.arange(0, d, 2, device=x.device).float() / d)
    th = torch.outer(pos, freq).to(x.dtype)
    x1, x2 = x[..., : d // 2], x[..., d // 2:]
    return torch.cat([x1 * th.cos() - x2 * th.sin(), x2 * th.cos() + x1 * th.sin()], dim=-1)


class Kiku(nn.Module):
    def __init__(self, D=32, H=4, Hkv=2):
        super().__init__()
        self.H, self.Hkv, self.d = H, Hkv, D // H
        self.wq = nn.Linear(D, H * self.d, bias=False)
        self.wkv = nn.Linear(D, 2 * Hkv * self.d, bias=False)
        self.wo = nn.Linear(H * self.d, D, bias=False)

    def forward(self, x, cache=None):
        B, T, _ = x.shape
        past = 0 if cache is None else cache[0].size(2)
        q = self.wq(x).view(B, T, self.H, self.d).transpose(1, 2)
        k, v = self.wkv(x).view(B, T, 2, self.Hkv, self.d).permute(2, 0, 3, 1, 4)
        total = past + T
        q, k = kaiten(q, total), kaiten(k, total)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        cache = (k, v)

        n = self.H // self.Hkv
        k, v = k.repeat(1, n, 1, 1), v.repeat(1, n, 1, 1)
        see = torch.ones(T, total, dtype=torch.bool, device=x.device).tril(past)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=see)
        return self.wo(y.transpose(1, 2).flatten(2)), cache
