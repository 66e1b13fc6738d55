import torch
import torch.nn.functional as F


def gqa(q, k, v):
    """q: (B, L, Hq, D); k, v: (B, L, Hkv, D). Returns (B, L, Hq, D)."""
    n_rep = q.shape[2] // k.shape[2]
    k = k.repeat_interleave(n_rep, dim=1).reshape(k.shape[0], k.shape[1], -1, k.shape[3])
    v = v.repeat_interleave(n_rep, dim=1).reshape(v.shape[0], v.shape[1], -1, v.shape[3])
    s = torch.einsum("blhd,bmhd->bhlm", q, k) / q.shape[-1] ** 0.5
    p = F.softmax(s, dim=-1)
    return torch.einsum("bhlm,bmhd->blhd", p, v)
