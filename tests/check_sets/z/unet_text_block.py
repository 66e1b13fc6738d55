"""Spatial transformer block of a latent-diffusion U-Net, with text conditioning."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def prepare_text_bias(text_mask, dtype):
    """text_mask (B, S): 1 for tokens, 0 for padding -> additive bias (B, 1, S):
    0 for tokens and a large negative number for padding."""
    return ((1 - text_mask.to(dtype)) * -10000.0).unsqueeze(1)


class GEGLU(nn.Module):
    def __init__(self, d, mult=4):
        super().__init__()
        self.up = nn.Linear(d, 2 * mult * d)
        self.down = nn.Linear(mult * d, d)

    def forward(self, x):
        h, gate = self.up(x).chunk(2, dim=-1)
        return self.down(h * F.gelu(gate))


class CrossAttention(nn.Module):
    """attention_mask: the bias made by prepare_text_bias, (B, 1, S), or None."""

    def __init__(self, query_dim, context_dim=None, heads=4, dim_head=8):
        super().__init__()
        inner = heads * dim_head
        context_dim = context_dim or query_dim
        self.heads = heads
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_k = nn.Linear(context_dim, inner, bias=False)
        self.to_v = nn.Linear(context_dim, inner, bias=False)
        self.to_out = nn.Linear(inner, query_dim)

    def forward(self, hidden_states, encoder_hidden_states=None, attention_mask=None):
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        b, n, _ = hidden_states.shape
        s = context.shape[1]
        query = self.to_q(hidden_states).view(b, n, self.heads, -1).transpose(1, 2)
        key = self.to_k(context).view(b, s, self.heads, -1).transpose(1, 2)
        value = self.to_v(context).view(b, s, self.heads, -1).transpose(1, 2)

        if attention_mask is not None:
            attention_mask = attention_mask.unsqueeze(1).expand(b, self.heads, n, s)
            attention_mask = attention_mask.to(torch.bool)

        out = F.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask, dropout_p=0.0)
        out = out.transpose(1, 2).reshape(b, n, -1)
        return self.to_out(out)


class SpatialTransformer(nn.Module):
    """x (B, C, H, W), text (B, S, D), text_mask (B, S) or None -> (B, C, H, W)"""

    def __init__(self, channels, text_dim, heads=4, groups=4):
        super().__init__()
        d = channels // heads
        self.norm = nn.GroupNorm(groups, channels)
        self.proj_in = nn.Conv2d(channels, channels, 1)
        self.norm1, self.attn1 = nn.LayerNorm(channels), CrossAttention(channels, None, heads, d)
        self.norm2, self.attn2 = nn.LayerNorm(channels), CrossAttention(channels, text_dim, heads, d)
        self.norm3, self.ff = nn.LayerNorm(channels), GEGLU(channels)
        self.proj_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x, text, text_mask=None):
        B, C, H, W = x.shape
        bias = None if text_mask is None else prepare_text_bias(text_mask, x.dtype)
        h = self.proj_in(self.norm(x)).permute(0, 2, 3, 1).reshape(B, H * W, C)
        h = h + self.attn1(self.norm1(h))
        h = h + self.attn2(self.norm2(h), text, bias)
        h = h + self.ff(self.norm3(h))
        h = h.reshape(B, H, W, C).permute(0, 3, 1, 2)
        return x + self.proj_out(h)
