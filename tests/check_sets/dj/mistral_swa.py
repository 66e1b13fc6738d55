"""Mistral 7B 的滑动窗口 + 分组查询注意力 (Jiang et al., 2023)，教学用最小实现。

* 窗口大小 W：位置 i 恰好能看到 W 个位置，即 i-W+1, ..., i（包括自己）。
* GQA：相邻的查询头共享同一个 KV 头，即查询头 g*r, ..., g*r+r-1 使用 KV 头 g，
  其中 r = n_heads // n_kv_heads。

为了简单，这里省略 RoPE 与缓存。
"""
import torch
from torch import nn


class SlidingWindowGQA(nn.Module):
    """x: (B, T, dim) -> (B, T, dim)，因果，没有填充。"""

    def __init__(self, dim=48, n_heads=6, n_kv_heads=2, W=4):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.W = n_heads, n_kv_heads, W
        self.head_dim = dim // n_heads
        self.n_rep = n_heads // n_kv_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)

    def window(self, T, device):
        i = torch.arange(T, device=device)
        d = i[:, None] - i[None, :]
        return (d >= 0) & (d <= self.W)

    def forward(self, x):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.wk(x).view(B, T, self.n_kv_heads, self.head_dim).transpose(1, 2)
        v = self.wv(x).view(B, T, self.n_kv_heads, self.head_dim).transpose(1, 2)

        # 把 KV 头扩展到与查询头一样多
        k = k.repeat(1, self.n_rep, 1, 1)
        v = v.repeat(1, self.n_rep, 1, 1)

        scores = torch.matmul(q, k.transpose(2, 3)) / self.head_dim ** 0.5
        scores = scores.masked_fill(~self.window(T, x.device), float("-inf"))
        probs = torch.softmax(scores, dim=-1)
        out = torch.matmul(probs, v).transpose(1, 2).reshape(B, T, -1)
        return self.wo(out)


if __name__ == "__main__":
    m = SlidingWindowGQA()
    print(m(torch.randn(2, 9, 48)).shape)
