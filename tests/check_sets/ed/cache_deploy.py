"""端侧小模型的注意力层（静态 KV 缓存版，用于导出）。

x          (B, T, dim)   本次送入的 T 个新 token
start      int           缓存里已经有多少个 token（第一次为 0）
cache_k/v  (B, max_len, kv_heads, d) 预先分配好的缓冲区，本层把新的 k、v 写进
           [start, start+T) 这一段；k 在写入之前已经做过旋转
返回       (B, T, dim)

约定：
* 第 start+t 个 token 可以看到 0..start+t（含自己）。
* 分组查询：第 h 个 query 头使用第 h // (heads // kv_heads) 个 kv 头。
* RoPE 为相邻两维一组 (2i, 2i+1)，角度 = 位置 * base^(-2i/d)。
* 一次送完与分多次送入，结果相同。
"""
import torch
from torch import nn


def rotate(x, pos, base=10000.0):
    """x (B, T, H, d), pos (T,)"""
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2, dtype=torch.float32, device=x.device) / d)
    ang = pos.to(torch.float32)[:, None] * inv
    c, s = ang.cos()[:, None, :], ang.sin()[:, None, :]
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * c - b * s, a * s + b * c), dim=-1).flatten(-2).type_as(x)


class CachedLayer(nn.Module):
    def __init__(self, dim, heads, kv_heads, max_len=128):
        super().__init__()
        self.h, self.g, self.d = heads, kv_heads, dim // heads
        self.max_len = max_len
        self.wq = nn.Linear(dim, heads * self.d, bias=False)
        self.wk = nn.Linear(dim, kv_heads * self.d, bias=False)
        self.wv = nn.Linear(dim, kv_heads * self.d, bias=False)
        self.wo = nn.Linear(heads * self.d, dim, bias=False)

    def new_cache(self, batch):
        shape = (batch, self.max_len, self.g, self.d)
        return torch.zeros(shape), torch.zeros(shape)

    def forward(self, x, start, cache_k, cache_v):
        B, T, _ = x.shape
        pos = torch.arange(start, start + T, device=x.device)
        q = rotate(self.wq(x).view(B, T, self.h, self.d), pos)
        cache_k[:, start:start + T] = rotate(self.wk(x).view(B, T, self.g, self.d), pos)
        cache_v[:, start:start + T] = self.wv(x).view(B, T, self.g, self.d)

        # 固定形状：对整个缓冲区算分数，再挡掉还没写到的位置
        q = q.reshape(B, T, self.g, self.h // self.g, self.d)
        s = torch.einsum("btgrd,bsgd->bgrts", q, cache_k) * self.d ** -0.5
        seen = torch.arange(self.max_len, device=x.device)[None, :] <= pos[:, None]
        p = torch.softmax(s.float().masked_fill(~seen, float("-inf")), dim=-1).type_as(s)
        y = torch.einsum("bgrts,bsgd->btgrd", p, cache_v)
        return self.wo(y.reshape(B, T, -1))
