import torch


def rope_tables(n, dim, base=10000.0):
    inv = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    ang = torch.arange(n, dtype=torch.float64)[:, None] * inv[None, :]
    ang = torch.repeat_interleave(ang, 2, dim=-1)
    return ang.cos(), ang.sin()


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def rotary_attention(q, k, v):
    """Causal attention with rotary positions. q, k, v (batch, heads, length, dim)"""
    cos, sin = rope_tables(q.shape[2], q.shape[3])
    cos, sin = cos.to(q), sin.to(q)
    q = q * cos + rotate_half(q) * sin
    k = k * cos + rotate_half(k) * sin
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
