"""Translation server, half precision: one attention function that survives all our masks.

guarded_attention(q, k, v, pad=None, causal=False)
    q     (B, H, Lq, d);  k, v (B, H, Lk, d), float16, bfloat16 or float32
    pad   (B, Lk) bool, True = padding key
    causal  query t sits at position Lk - Lq + t and does not see later keys
    returns (B, H, Lq, d) in the type of q
Scores (1/sqrt(d)) and softmax are float32 whatever the input type.  A query without any
visible key gets a row of zeros.
"""
import torch


def guarded_attention(q, k, v, pad=None, causal=False):
    Lq, Lk = q.size(-2), k.size(-2)
    blocked = torch.zeros(1, 1, Lq, Lk, dtype=torch.bool, device=q.device)
    if causal:
        t = torch.arange(Lk - Lq, Lk, device=q.device)[:, None]
        blocked = blocked | (torch.arange(Lk, device=q.device)[None, :] > t)
    if pad is not None:
        blocked = blocked | pad[:, None, None, :]
    s = torch.matmul(q.float() * q.size(-1) ** -0.5, k.float().transpose(-2, -1))
    s = s.masked_fill(blocked, torch.finfo(torch.float32).min)
    w = torch.softmax(s, dim=-1, dtype=torch.float32)
    w = w.masked_fill(blocked.all(dim=-1, keepdim=True), 0.0)
    return torch.matmul(w, v.float()).to(q.dtype)
