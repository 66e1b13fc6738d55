import torch


def grouped_attention(q, k, v):
    """q: [batch, n_heads, seq, dim]; k, v: [batch, n_kv_heads, seq, dim]. n_heads is a multiple of n_kv_heads."""
    rep = q.shape[1] // k.shape[1]
    k = torch.repeat_interleave(k, rep, dim=1)
    v = torch.repeat_interleave(v, rep, dim=1)
    logits = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
    return torch.einsum("bhqk,bhkd->bhqd", torch.softmax(logits, -1), v)
