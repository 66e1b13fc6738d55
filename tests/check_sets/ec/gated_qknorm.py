"""门控注意力:SDPA 之后逐元素 sigmoid 门 + QK-RMSNorm + GQA。

x        (B, L, C)            隐藏状态
返回     (B, L, C)
因果:位置 i 只看 0..i。query 头 h 对应 kv 头 h // (heads // kv_heads)。
门由同一个 x 线性映射得到,乘在每个头的输出上(在 o_proj 之前)。
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class HeadNorm(nn.Module):
    """RMSNorm over the channels of each head, weight stored as an offset from 1."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, t):
        f = t.float()
        f = f * torch.rsqrt(f.square().mean(-1, keepdim=True) + self.eps)
        return (f * (1.0 + self.weight.float())).to(t.dtype)


class GatedAttention(nn.Module):
    def __init__(self, C, heads, kv_heads, head_dim, attn_drop=0.0):
        super().__init__()
        self.heads, self.kv_heads, self.hd = heads, kv_heads, head_dim
        self.attn_drop = attn_drop
        # q 和 gate 合并在一个矩阵里,每个头内部是 [q | gate]
        self.q_gate = nn.Linear(C, heads * head_dim * 2, bias=False)
        self.kv = nn.Linear(C, kv_heads * head_dim * 2, bias=False)
        self.q_norm, self.k_norm = HeadNorm(head_dim), HeadNorm(head_dim)
        self.o_proj = nn.Linear(heads * head_dim, C, bias=False)

    def forward(self, x):
        B, L, _ = x.shape
        q, gate = self.q_gate(x).view(B, L, self.heads, 2 * self.hd).chunk(2, dim=-1)
        k, v = self.kv(x).view(B, L, 2, self.kv_heads, self.hd).unbind(2)
        q, k = self.q_norm(q), self.k_norm(k)
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
            dropout_p=self.attn_drop if self.training else 0.0,
            is_causal=True, enable_gqa=True)
        y = y.transpose(1, 2) * torch.sigmoid(gate)
        return self.o_proj(y.reshape(B, L, -1))
