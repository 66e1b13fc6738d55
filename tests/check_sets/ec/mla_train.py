"""DeepSeek-style multi-head latent attention, training path (expanded keys and values).

Each head has d_nope + d_rope query/key channels and d_v value channels.  Following the
paper, the logits are divided by sqrt(d_nope + d_rope), the number of channels that enter
one dot product.  Causal over T.

x (B, T, D) -> (B, T, D).  The rotary key is one per token and shared by the heads.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rope_tables(T, dim, base=10000.0):
    inv = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)
    ang = torch.outer(torch.arange(T).float(), inv)
    ang = torch.cat((ang, ang), dim=-1)
    return ang.cos(), ang.sin()


def apply_rope(t, cos, sin):
    """t (B, H, T, dim), half-split pairs (i, i + dim/2)."""
    a, b = t.chunk(2, dim=-1)
    return t * cos + torch.cat((-b, a), dim=-1) * sin


class LatentMHA(nn.Module):
    def __init__(self, D, num_heads, q_rank, kv_rank, d_nope, d_rope, d_v):
        super().__init__()
        self.num_heads = num_heads
        self.d_nope, self.d_rope, self.d_v = d_nope, d_rope, d_v
        self.d_qk = d_nope + d_rope
        self.q_down = nn.Linear(D, q_rank, bias=False)
        self.q_ln = nn.RMSNorm(q_rank, eps=1e-6)
        self.q_up = nn.Linear(q_rank, num_heads * self.d_qk, bias=False)
        self.kv_down = nn.Linear(D, kv_rank + d_rope, bias=False)
        self.kv_ln = nn.RMSNorm(kv_rank, eps=1e-6)
        self.kv_up = nn.Linear(kv_rank, num_heads * (d_nope + d_v), bias=False)
        self.o = nn.Linear(num_heads * d_v, D, bias=False)
        self.softmax_scale = self.q_up.out_features ** -0.5

    def forward(self, x):
        B, T, _ = x.shape
        H = self.num_heads
        q = self.q_up(self.q_ln(self.q_down(x))).view(B, T, H, self.d_qk).transpose(1, 2)
        q_nope, q_pe = q.split([self.d_nope, self.d_rope], dim=-1)
        lat, k_pe = self.kv_down(x).split([self.kv_ln.normalized_shape[0], self.d_rope], dim=-1)
        kv = self.kv_up(self.kv_ln(lat)).view(B, T, H, self.d_nope + self.d_v).transpose(1, 2)
        k_nope, v = kv.split([self.d_nope, self.d_v], dim=-1)

        cos, sin = rope_tables(T, self.d_rope)
        q_pe = apply_rope(q_pe, cos, sin)
        k_pe = apply_rope(k_pe.unsqueeze(1), cos, sin).expand(B, H, T, -1)
        q = torch.cat((q_nope, q_pe), dim=-1)
        k = torch.cat((k_nope, k_pe), dim=-1)

        scores = q @ k.transpose(2, 3) * self.softmax_scale
        hide = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(hide, float("-inf"))
        p = F.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype)
        return self.o((p @ v).transpose(1, 2).reshape(B, T, H * self.d_v))
