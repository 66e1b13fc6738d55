"""Layer of a small BLOOM clone.

ALiBi instead of position embeddings: with heads counted h = 1 .. n the slope is
m_h = 2 ** (-8 * h / n) (n a power of two: n = 8 gives 1/2, 1/4, ... 1/256) and
the logit of query i and key j <= i gets  -m_h * (i - j).

``BlmLayer(d_model, n)``
    x : (B, L, d_model) -> (B, L, d_model); causal; 1/sqrt(d_model / n) scaling.
The residual is taken before the LayerNorm (BLOOM's default,
apply_residual_connection_post_layernorm=False); fused qkv is (n, 3, head).
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def slopes_for(n):
    assert n & (n - 1) == 0, "power of two only"
    base = 2.0 ** (-8.0 / n)
    return torch.tensor([base ** h for h in range(n)])


class BlmLayer(nn.Module):
    def __init__(self, d_model, n):
        super().__init__()
        self.n = n
        self.hd = d_model // n
        self.input_layernorm = nn.LayerNorm(d_model)
        self.post_attention_layernorm = nn.LayerNorm(d_model)
        self.query_key_value = nn.Linear(d_model, 3 * d_model)
        self.dense = nn.Linear(d_model, d_model)
        self.dense_h_to_4h = nn.Linear(d_model, 4 * d_model)
        self.dense_4h_to_h = nn.Linear(4 * d_model, d_model)
        self.register_buffer("m", slopes_for(n), persistent=False)

    def forward(self, x):
        B, L, D = x.shape
        fused = self.query_key_value(self.input_layernorm(x))
        fused = fused.view(B, L, self.n, 3, self.hd)
        q, k, v = (fused[..., i, :].transpose(1, 2) for i in range(3))
        pos = torch.arange(L, device=x.device)
        dist = (pos[:, None] - pos[None, :]).to(q.dtype)
        bias = -self.m.view(-1, 1, 1) * dist
        bias = bias.masked_fill(dist < 0, float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None],
                                           scale=1 / math.sqrt(self.hd))
        x = x + self.dense(y.transpose(1, 2).reshape(B, L, D))
        z = self.dense_h_to_4h(self.post_attention_layernorm(x))
        return x + self.dense_4h_to_h(F.gelu(z))
