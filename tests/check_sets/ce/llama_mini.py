"""LLaMA 風デコーダ層のスクラッチ実装(ブログ連載 第3回「GQA と RoPE」)。

* RMSNorm -> GQA(RoPE 付き)-> 残差 -> RMSNorm -> SwiGLU -> 残差
* RoPE は Hugging Face 版と同じ「前半・後半」方式。チェックポイントも同じ並び。
* クエリのヘッド h はキー・バリューのヘッド h // (H / H_kv) を使う。
* KVCache は回転済みのキーを保存し、続きのトークンは位置 len(cache) から始まる。
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Args:
    dim: int = 48
    n_heads: int = 6
    n_kv_heads: int = 2
    hidden: int = 96
    theta: float = 10000.0
    eps: float = 1e-6

    @property
    def head_dim(self) -> int:
        return self.dim // self.n_heads


class KVCache:
    def __init__(self):
        self.k = self.v = None

    def __len__(self):
        return 0 if self.k is None else self.k.shape[2]

    def append(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
        return self.k, self.v


def rotate(x, pos, theta):
    # x: (B, H, T, d)  pos: (T,)
    d = x.shape[-1]
    freq = theta ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    ang = pos.float()[:, None] * freq                       # (T, d/2)
    cos, sin = ang.cos().repeat(1, 2), ang.sin().repeat(1, 2)
    a, b = x.chunk(2, dim=-1)
    return (x * cos + torch.cat([-b, a], dim=-1) * sin).type_as(x)


class GQA(nn.Module):
    def __init__(self, args: Args):
        super().__init__()
        self.a = args
        hd = args.head_dim
        self.wq = nn.Linear(args.dim, args.n_heads * hd, bias=False)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * hd, bias=False)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * hd, bias=False)
        self.wo = nn.Linear(args.n_heads * hd, args.dim, bias=False)

    def forward(self, x, cache=None):
        B, T, _ = x.shape
        hd = self.a.head_dim
        q = self.wq(x).view(B, T, -1, hd).transpose(1, 2)
        k = self.wk(x).view(B, T, -1, hd).transpose(1, 2)
        v = self.wv(x).view(B, T, -1, hd).transpose(1, 2)
        start = len(cache) if cache is not None else 0
        pos = torch.arange(start, start + T, device=x.device)
        q, k = rotate(q, pos, self.a.theta), rotate(k, pos, self.a.theta)
        if cache is not None:
            k, v = cache.append(k, v)
        g = self.a.n_heads // self.a.n_kv_heads
        # (B, H_kv, g, T, d) にまとめ、キーをコピーせずに計算する
        q = q.unflatten(1, (-1, g))
        s = torch.einsum("bngtd,bnsd->bngts", q, k) * hd ** -0.5
        future = torch.arange(k.shape[2], device=x.device)[None, :] > pos[:, None]
        p = s.masked_fill(future, float("-inf")).float().softmax(-1).type_as(v)
        y = torch.einsum("bngts,bnsd->btngd", p, v).reshape(B, T, -1)
        return self.wo(y)


class DecoderLayer(nn.Module):
    def __init__(self, args: Args = Args()):
        super().__init__()
        self.attn = GQA(args)
        self.n1 = nn.RMSNorm(args.dim, eps=args.eps)
        self.n2 = nn.RMSNorm(args.dim, eps=args.eps)
        self.gate = nn.Linear(args.dim, args.hidden, bias=False)
        self.up = nn.Linear(args.dim, args.hidden, bias=False)
        self.down = nn.Linear(args.hidden, args.dim, bias=False)

    def forward(self, x, cache=None):
        x = x + self.attn(self.n1(x), cache)
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))
