import torch


def grouped_heads(q, k, v, causal=True):
    """Grouped-query attention as in LLaMA-2 70B.

    q: (B, T, Hq, d)   k, v: (B, S, Hkv, d)   Hq a multiple of Hkv, S >= T
    Consecutive query heads form a group: the first Hq // Hkv of them read kv head 0,
    the next ones kv head 1, and so on. With causal=True the last query sits on the last key.
    Returns (B, T, Hq * d).
    """
    B, T, Hq, d = q.shape
    S, Hkv = k.shape[1:3]
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    k, v = (t.repeat(1, Hq // Hkv, 1, 1) for t in (k, v))
    att = torch.matmul(q, k.mT) * d ** -0.5
    if causal:
        see = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T)
        att = att.masked_fill(~see, float("-inf"))
    att = att.float().softmax(-1).to(v.dtype)
    return torch.matmul(att, v).transpose(1, 2).reshape(B, T, Hq * d)
