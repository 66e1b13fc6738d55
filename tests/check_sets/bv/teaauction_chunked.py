# -*- coding: utf-8 -*-
"""茶叶拍卖报价助手：自回归解码模块，支持分段预填（chunked prefill）与逐词解码。

注意力约定
----------
* 缓存的 K 是已经旋转过的，形状 [B, Hkv, T, d]，V 同形；
* 旋转编码为“前半/后半”排法（HF 的 rotate_half）；
* 因果：第 i 个词只看自己和之前的词；
* 分段送入与一次送入结果相同。
"""
import torch
import torch.nn as nn


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class RotaryTable(nn.Module):
    def __init__(self, d, max_pos=512, base=10000.0):
        super().__init__()
        inv = base ** (-torch.arange(0, d, 2).float() / d)
        ang = torch.outer(torch.arange(max_pos).float(), inv)
        ang = torch.cat((ang, ang), dim=-1)
        self.register_buffer("cos", ang.cos(), persistent=False)
        self.register_buffer("sin", ang.sin(), persistent=False)

    def forward(self, q, k, start):
        n = q.shape[-2]
        c, s = self.cos[start:start + n], self.sin[start:start + n]
        return q * c + rotate_half(q) * s, k * c + rotate_half(k) * s


class BidAttention(nn.Module):
    def __init__(self, dim, n_heads, n_kv):
        super().__init__()
        self.n_heads, self.n_kv, self.d = n_heads, n_kv, dim // n_heads
        self.q_proj = nn.Linear(dim, n_heads * self.d, bias=True)
        self.k_proj = nn.Linear(dim, n_kv * self.d, bias=True)
        self.v_proj = nn.Linear(dim, n_kv * self.d, bias=True)
        self.o_proj = nn.Linear(n_heads * self.d, dim, bias=False)
        self.rope = RotaryTable(self.d)

    def forward(self, x, past=None):
        """x: [B, t, dim]；past: None 或 (K, V)。返回 (y, (K, V))。"""
        B, t, _ = x.shape
        q = self.q_proj(x).view(B, t, self.n_heads, self.d).transpose(1, 2)
        k = self.k_proj(x).view(B, t, self.n_kv, self.d).transpose(1, 2)
        v = self.v_proj(x).view(B, t, self.n_kv, self.d).transpose(1, 2)

        seen = past[0].shape[1] if past is not None else 0
        q, k = self.rope(q, k, seen)
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)
        present = (k, v)

        r = self.n_heads // self.n_kv
        k, v = k.repeat_interleave(r, dim=1), v.repeat_interleave(r, dim=1)
        S = k.shape[2]
        w = q @ k.transpose(2, 3) / self.d ** 0.5
        visible = torch.ones(t, S, dtype=torch.bool, device=x.device).tril(S - t)
        w = w.masked_fill(~visible, float("-inf"))
        w = w.softmax(dim=-1, dtype=torch.float32).to(q.dtype)
        y = (w @ v).transpose(1, 2).reshape(B, t, -1)
        return self.o_proj(y), present


@torch.no_grad()
def feed_in_chunks(layer, x, size):
    """把长提示切块送入，拼回完整输出。"""
    past, outs = None, []
    for piece in x.split(size, dim=1):
        y, past = layer(piece, past)
        outs.append(y)
    return torch.cat(outs, dim=1), past


if __name__ == "__main__":
    torch.manual_seed(0)
    att = BidAttention(32, 4, 2)
    out, _ = feed_in_chunks(att, torch.randn(1, 10, 32), 4)
    print(out.shape)
