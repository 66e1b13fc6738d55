"""Prefix-LM attention of a vision-language decoder with logit soft-capping.

The first n_prefix tokens (image patches + prompt) read each other in both directions;
every later token reads the prefix and the tokens up to itself.  A token that is not
allowed has weight exactly 0.

    logits = softcap * tanh(q k^T / sqrt(d) / softcap)

q, k, v  (B, H, T, d)   ->  (B, H, T, d)
"""
import torch

NEG = -1e30


def prefix_lm_bias(T: int, n_prefix: int, device=None, dtype=torch.float32):
    """(T, T): 0 where reading is allowed, NEG elsewhere."""
    i = torch.arange(T, device=device)
    allowed = (i[None, :] <= i[:, None]) | (i[None, :] < n_prefix)
    return torch.zeros(T, T, device=device, dtype=dtype).masked_fill(~allowed, NEG)


def soft_cap(x: torch.Tensor, cap: float) -> torch.Tensor:
    return torch.tanh(x / cap) * cap


def prefix_attention(q, k, v, n_prefix: int, softcap: float = 5.0):
    T, d = q.shape[-2:]
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / d ** 0.5
    scores = scores.float() + prefix_lm_bias(T, n_prefix, q.device)
    scores = soft_cap(scores, softcap)
    weights = torch.softmax(scores, dim=-1).to(v.dtype)
    return torch.einsum("bhij,bhjd->bhid", weights, v)
