"""Shared system prompt: attend to the prefix once per batch, merge with the private part.

Every request has the same prefix (P tokens), so its k and v are stored once, without a batch
axis.  The two partial results are joined by their log-sum-exp (natural log), which is exact:
    out = w_p * out_p + w_s * out_s,   w_x = exp(lse_x) / (exp(lse_p) + exp(lse_s)).
"""
import torch


def partial(q, k, v, mask=None):
    """Attention and lse over one set of keys. An empty set gives out 0 and lse -inf."""
    s = q @ k.mT * q.size(-1) ** -0.5          # k without batch axis broadcasts
    if mask is not None:
        s = s.masked_fill(~mask, -torch.inf)
    lse = torch.logsumexp(s, dim=-1, keepdim=True)
    p = torch.exp(s - torch.where(lse.isinf(), torch.zeros_like(lse), lse))
    return p @ v, lse


def shared_prefix_attention(q, k_prefix, v_prefix, k_own, v_own, own_len):
    """
    q                   (B, H, Q, d)
    k_prefix, v_prefix  (H, P, d), P >= 1, seen by every query
    k_own, v_own        (B, H, S, d), right-padded
    own_len             (B,) number of valid own keys, 0 allowed; all of them are visible to all
                        Q queries of the request (speculative tree verification is elsewhere)
    returns             (B, H, Q, d), equal to one softmax over [prefix, own keys]
    """
    S = k_own.size(2)
    ok = torch.arange(S, device=q.device)[None, :] < own_len[:, None]
    out_p, lse_p = partial(q, k_prefix, v_prefix)
    out_s, lse_s = partial(q, k_own, v_own, ok[:, None, None, :])
    top = torch.maximum(lse_p, lse_s)
    a = torch.exp(lse_p - top)
    b = torch.exp(lse_s - top)
    return (a * out_p + b * out_s) / (a + b)
