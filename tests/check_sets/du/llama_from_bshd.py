"""GQA core of my Llama trainer after switching to the (batch, seq, head, dim) layout.

The old layout was (batch, head, seq, dim); flash-attn wants (batch, seq, head, dim), so all the
reshapes moved.  This is the fallback for machines without flash-attn, it must return what
flash_attn_func(q, k, v, causal=True) returns.
"""
import torch


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    """(B, S, Hkv, d) -> (B, S, Hkv * n_rep, d); kv head g becomes the heads
    g * n_rep ... g * n_rep + n_rep - 1."""
    if n_rep == 1:
        return x
    B, S, Hkv, d = x.shape
    x = x.repeat(1, n_rep, 1, 1)
    return x.view(B, S, Hkv * n_rep, d)


def attn_fallback(q, k, v, causal=True):
    """
    q (B, Sq, H, d), k and v (B, Sk, Hkv, d); H % Hkv == 0.
    causal is aligned to the bottom right: the last query sees all Sk keys (flash-attn >= 2.1),
    Sk >= Sq.  Scale 1/sqrt(d), softmax in float32.
    returns (B, Sq, H, d)
    """
    n_rep = q.size(2) // k.size(2)
    k = repeat_kv(k, n_rep)
    v = repeat_kv(v, n_rep)
    Sq, Sk = q.size(1), k.size(1)
    w = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.size(-1) ** -0.5
    if causal:
        later = torch.ones(Sq, Sk, dtype=torch.bool, device=q.device).triu(Sk - Sq + 1)
        w.masked_fill_(later, float("-inf"))
    w = torch.softmax(w, dim=-1, dtype=torch.float32).to(v.dtype)
    return torch.einsum("bhqk,bkhd->bqhd", w, v)
