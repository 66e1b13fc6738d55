# 极简 Llama 推理代码:静态 KV 缓存 + 分组查询注意力
# 旋转位置编码采用相邻两维为一对的复数写法(与 Meta 官方权重一致)
import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn


class ModelArgs:
    dim: int = 64
    n_heads: int = 8
    n_kv_heads: Optional[int] = 2
    max_batch_size: int = 4
    max_seq_len: int = 64
    rope_theta: float = 10000.0


def precompute_freqs_cis(dim, end, theta):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim))
    t = torch.arange(end, dtype=torch.float32)
    freqs = torch.outer(t, freqs)
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_rotary(x, freqs_cis):
    # x: (批, 长度, 头, 每头维度)
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    x_ = x_ * freqs_cis[None, :, None, :]
    return torch.view_as_real(x_).flatten(3).type_as(x)


def repeat_kv(x, n_rep):
    """等价于 torch.repeat_interleave(x, dim=2, repeats=n_rep)"""
    bs, slen, n_kv_heads, head_dim = x.shape
    if n_rep == 1:
        return x
    return (
        x[:, :, :, None, :]
        .expand(bs, slen, n_kv_heads, n_rep, head_dim)
        .reshape(bs, slen, n_kv_heads * n_rep, head_dim)
    )


class CachedAttention(nn.Module):
    """x: (B, T, dim) 为从 start_pos 开始的新 token;因果注意力,可看到缓存中的全部历史。"""

    def __init__(self, args=ModelArgs):
        super().__init__()
        self.n_heads = args.n_heads
        self.n_kv_heads = args.n_heads if args.n_kv_heads is None else args.n_kv_heads
        self.n_rep = self.n_heads // self.n_kv_heads
        self.head_dim = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, self.n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(self.n_heads * self.head_dim, args.dim, bias=False)
        shape = (args.max_batch_size, args.max_seq_len, self.n_kv_heads, self.head_dim)
        self.register_buffer("cache_k", torch.zeros(shape), persistent=False)
        self.register_buffer("cache_v", torch.zeros(shape), persistent=False)
        self.register_buffer(
            "freqs_cis", precompute_freqs_cis(self.head_dim, args.max_seq_len, args.rope_theta), persistent=False
        )

    @torch.no_grad()
    def forward(self, x, start_pos=0):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        fc = self.freqs_cis[start_pos:start_pos + seqlen]
        xq, xk = apply_rotary(xq, fc), apply_rotary(xk, fc)

        # 写入缓存,再取出到当前位置为止的全部键值
        self.cache_k[:bsz, start_pos:start_pos + seqlen] = xk
        self.cache_v[:bsz, start_pos:start_pos + seqlen] = xv
        keys = repeat_kv(self.cache_k[:bsz, : start_pos + seqlen], self.n_rep)
        values = repeat_kv(self.cache_v[:bsz, : start_pos + seqlen], self.n_rep)

        xq, keys, values = xq.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)
        scores = torch.matmul(xq, keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        if seqlen > 1:
            mask = torch.full((seqlen, seqlen), float("-inf"), device=x.device)
            mask = torch.triu(mask, diagonal=1)
            # 历史部分全部可见
            mask = torch.hstack([torch.zeros((seqlen, start_pos), device=x.device), mask]).type_as(scores)
            scores = scores + mask
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        output = torch.matmul(scores, values)
        output = output.transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        return self.wo(output)
