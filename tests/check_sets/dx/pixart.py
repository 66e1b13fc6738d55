"""PixArt-alpha transformer block (Chen et al. 2023) - hobby re-implementation, 64x64 icons.

x          (B, N, D)  latent patches
text       (B, S, D)  caption tokens (already projected)
text_mask  (B, S)     int64 from the tokenizer: 1 = caption token, 0 = padding to ignore
t6         (B, 6, D)  adaLN-single modulation: shift, scale, gate for attention; same for MLP

Order: x += gate * SelfAttn(mod(LN x)); x += CrossAttn(x, text); x += gate * MLP(mod(LN x)).
The cross-attention has no norm and no gate, as in the paper. Usual 1/sqrt(D/heads) scale.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class PixArtBlock(nn.Module):
    def __init__(self, D=48, heads=4):
        super().__init__()
        self.heads = heads
        self.n1 = nn.LayerNorm(D, elementwise_affine=False)
        self.n2 = nn.LayerNorm(D, elementwise_affine=False)
        self.qkv = nn.Linear(D, 3 * D)
        self.proj = nn.Linear(D, D)
        self.q_linear = nn.Linear(D, D)
        self.kv_linear = nn.Linear(D, 2 * D)
        self.cross_proj = nn.Linear(D, D)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(approximate="tanh"), nn.Linear(4 * D, D))
        self.table = nn.Parameter(torch.randn(6, D) / D ** 0.5)

    def self_attn(self, x):
        B, N, D = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(B, N, D))

    def cross_attn(self, x, text, text_mask):
        B, N, D = x.shape
        S = text.shape[1]
        q = self.q_linear(x).reshape(B, N, self.heads, -1).transpose(1, 2)
        k, v = self.kv_linear(text).reshape(B, S, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        bias = text_mask[:, None, None, :].to(q.dtype)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.cross_proj(y.transpose(1, 2).reshape(B, N, D))

    def forward(self, x, text, text_mask, t6):
        s1, c1, g1, s2, c2, g2 = (self.table + t6).unbind(1)
        x = x + g1.unsqueeze(1) * self.self_attn(modulate(self.n1(x), s1, c1))
        x = x + self.cross_attn(x, text, text_mask)
        return x + g2.unsqueeze(1) * self.mlp(modulate(self.n2(x), s2, c2))
