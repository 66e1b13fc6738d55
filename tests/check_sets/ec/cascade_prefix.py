"""Cascade attention with a shared prefix (prefix caching).

All B requests of a batch start with the same system prompt.  Its keys and values are
stored once, (H, P, d), and attended in one dense product; the private suffixes are
attended separately, and the two partial results are merged through their
log-sum-exp (natural logarithm everywhere):

    o = (e^{l1} o1 + e^{l2} o2) / (e^{l1} + e^{l2})

The result equals ordinary attention over the concatenation [prefix ; suffix].
"""
import torch
from torch import Tensor


def partial_attention(s: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """s (..., Lq, Lk) scaled logits, v (..., Lk, d) -> (output, lse (..., Lq))."""
    lse = torch.logsumexp(s, dim=-1)
    return torch.exp(s - lse.unsqueeze(-1)) @ v, lse


def merge_states(o1: Tensor, l1: Tensor, o2: Tensor, l2: Tensor) -> tuple[Tensor, Tensor]:
    share = torch.sigmoid(l1 - l2).unsqueeze(-1)      # e^l1 / (e^l1 + e^l2)
    return share * o1 + (1.0 - share) * o2, torch.logaddexp(l1, l2)


def cascade_attention(q: Tensor, prefix_k: Tensor, prefix_v: Tensor,
                      suffix_k: Tensor, suffix_v: Tensor, suffix_len: Tensor) -> Tensor:
    """One decoding step.

    q                      (B, H, d)
    prefix_k, prefix_v     (H, P, d)      shared
    suffix_k, suffix_v     (B, H, S, d)   right-padded
    suffix_len             (B,) int in 1..S, number of real suffix tokens
    returns                (B, H, d)
    """
    d = q.shape[-1]
    q = q * d ** -0.5

    # prefix: the batch plays the role of the query axis
    s = torch.einsum("bhd,hpd->hbp", q, prefix_k)
    o, l = partial_attention(s, prefix_v)                       # (H, B, d), (H, B)
    o_pre, l_pre = o.transpose(0, 1), l.transpose(0, 1)

    # suffix: ordinary per-request decode
    s = torch.einsum("bhd,bhsd->bhs", q, suffix_k)
    pad = torch.arange(suffix_k.shape[2], device=q.device) >= suffix_len[:, None]
    s = s.masked_fill(pad[:, None, :], float("-inf"))
    o, l_suf = partial_attention(s.unsqueeze(2), suffix_v)
    o_suf, l_suf = o.squeeze(2), l_suf.squeeze(2)

    return merge_states(o_pre, l_pre, o_suf, l_suf)[0]
