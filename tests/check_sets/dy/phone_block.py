"""On-device speech model: attention rewritten for the exporter (no complex, no indexing tricks).

phone_attention(q, k, v, keep, cap=20.0)
    q, k, v  (B, H, T, d), d even, before rotation; token t has position t
    keep     (B, T) bool, True = real frame (a prefix; at least one)
    returns  (B, H, T, d)
Rotary embedding in the half-split layout: coordinate m (0 <= m < d/2) is paired with m + d/2
and the pair is rotated by the angle t * 10000 ** (-2m / d).
Logits q.k / sqrt(d) are capped smoothly, cap * tanh(logit / cap); after that padding is left
out of the softmax altogether (weight zero).
"""
import torch


def angles(T, d, like):
    inv = 10000.0 ** (-torch.arange(0, d, 2, dtype=like.dtype, device=like.device) / d)
    t = torch.arange(T, dtype=like.dtype, device=like.device)
    return torch.outer(t, inv).repeat_interleave(2, dim=-1)


def half_turn(x):
    a, b = torch.chunk(x, 2, dim=-1)
    return torch.cat([b.neg(), a], dim=-1)


def phone_attention(q, k, v, keep, cap=20.0):
    T, d = q.shape[-2:]
    ang = angles(T, d, q)
    q = q * ang.cos() + half_turn(q) * ang.sin()
    k = k * ang.cos() + half_turn(k) * ang.sin()
    s = torch.matmul(q, k.transpose(-2, -1)) * d ** -0.5
    s = torch.where(keep[:, None, None, :], s, torch.full_like(s, -1e9))
    s = cap * torch.tanh(s / cap)
    return torch.matmul(torch.softmax(s, dim=-1), v)
