"""Mixture-of-Head attention for vision-language encoders (bidirectional).

The first ``n_shared`` heads are used by every token.  Of the others each token
(as a query) uses only its ``top_k``, chosen by a router.  The output is the
*weighted* sum of head outputs after the output projection:

    y = sum_h g_h * head_h @ W_o[h]
    g_h = a_1 * softmax(W_s x)_h                    shared heads
    g_h = a_2 * softmax(W_r x)_h  if h in top-k     routed heads, else 0
    (a_1, a_2) = softmax(W_m x)

The routed gates are not renormalised after the top-k selection.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MoHAttention(nn.Module):
    def __init__(self, d_model: int = 64, n_heads: int = 8, n_shared: int = 2,
                 top_k: int = 3):
        super().__init__()
        self.h, self.hs, self.k = n_heads, n_shared, top_k
        self.dh = d_model // n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.w_o = nn.Parameter(torch.randn(n_heads, self.dh, d_model) * d_model ** -0.5)
        self.router_shared = nn.Linear(d_model, n_shared, bias=False)
        self.router_routed = nn.Linear(d_model, n_heads - n_shared, bias=False)
        self.router_mix = nn.Linear(d_model, 2, bias=False)

    def gates(self, x: torch.Tensor) -> torch.Tensor:
        """[B, L, D] -> [B, L, H]"""
        a = F.softmax(self.router_mix(x), dim=-1)
        shared = F.softmax(self.router_shared(x), dim=-1)
        routed = F.softmax(self.router_routed(x), dim=-1)
        idx = routed.topk(self.k, dim=-1).indices
        chosen = torch.zeros_like(routed).scatter(-1, idx, 1.0)
        return torch.cat([a[..., :1] * shared, a[..., 1:] * routed * chosen], dim=-1)

    def forward(self, x: torch.Tensor, valid: torch.Tensor | None = None) -> torch.Tensor:
        """valid: [B, L] bool, True for real tokens."""
        B, L, _ = x.shape
        q, k, v = self.qkv(x).view(B, L, 3, self.h, self.dh).permute(2, 0, 3, 1, 4)
        mask = None if valid is None else valid[:, None, None, :]
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)   # B H L dh
        g = self.gates(x)
        return torch.einsum("blh,bhld,hdm->blm", g, heads, self.w_o)


class MoHEncoderLayer(nn.Module):
    def __init__(self, d_model: int = 64, n_heads: int = 8, **kw):
        super().__init__()
        self.norm_a = nn.LayerNorm(d_model)
        self.norm_f = nn.LayerNorm(d_model)
        self.attn = MoHAttention(d_model, n_heads, **kw)
        self.ffn = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(),
                                 nn.Linear(4 * d_model, d_model))

    def forward(self, x, valid=None):
        x = x + self.attn(self.norm_a(x), valid)
        return x + self.ffn(self.norm_f(x))
