"""Prefill of long prompts without the (Lq, Lk) matrix.

Same result as the naive causal attention, but queries are handled in slices,
and each slice only touches the keys it may see.  Memory is O(chunk * Lk).

People on the forum asked why I slice the keys too: after the slice every key
beyond the last query of the chunk would be masked anyway.
"""
import torch


def chunked_causal(q, k, v, chunk=128):
    """
    q:    (B, H, Lq, d)
    k, v: (B, H, Lk, d) with Lk >= Lq; the queries are the LAST Lq positions,
          i.e. query i has the absolute position Lk - Lq + i and sees keys
          0 .. Lk - Lq + i (itself included).
    Scale is 1/sqrt(d).  Returns (B, H, Lq, d) in q's dtype; the softmax is
    done in float32.
    """
    Lq, d = q.shape[-2:]
    Lk = k.shape[-2]
    shift = Lk - Lq
    if shift < 0:
        raise ValueError("more queries than keys")
    out = torch.empty(*q.shape[:-1], v.shape[-1], dtype=q.dtype, device=q.device)
    for a in range(0, Lq, chunk):
        b = min(a + chunk, Lq)
        hi = shift + b                                  # keys that this slice can reach
        s = torch.matmul(q[..., a:b, :].float(), k[..., :hi, :].float().transpose(-1, -2))
        s *= d ** -0.5
        # only the right-most (b - a) columns contain something forbidden
        n = b - a
        tri = torch.ones(n, n, dtype=torch.bool, device=q.device).triu_(1)
        s[..., hi - n:].masked_fill_(tri, float("-inf"))
        p = torch.softmax(s, dim=-1)
        out[..., a:b, :] = torch.matmul(p, v[..., :hi, :].float()).to(q.dtype)
    return out
