import torch


def to_heads(t, n):
    return t.view(t.shape[0], t.shape[1], n, -1).permute(0, 2, 1, 3)


def verify_draft(draft, wrote, weights, n=2):
    """Score all drafted tokens in one call.

    draft (B, T, D): hidden states of the T drafted tokens, which come after `wrote`.
    wrote: (keys, values) of the P accepted tokens, each (B, n, P, D // n).
    weights: dict of (D, D) matrices "q", "k", "v", "o".
    Draft token t sees all accepted tokens and draft tokens 0..t.
    Returns the states (B, T, D) and the extended (keys, values).
    """
    q, k, v = (to_heads(draft @ weights[s], n) for s in "qkv")
    k = torch.cat((wrote[0], k), dim=-2)
    v = torch.cat((wrote[1], v), dim=-2)
    T, S = q.shape[-2], k.shape[-2]
    allowed = torch.ones(T, S, dtype=torch.bool, device=q.device).tril()
    e = torch.einsum("bntd,bnsd->bnts", q, k) * q.shape[-1] ** -0.5
    e = torch.where(allowed, e, torch.tensor(float("-inf"), dtype=e.dtype, device=e.device))
    y = torch.einsum("bnts,bnsd->btnd", e.softmax(-1), v)
    return y.flatten(2) @ weights["o"], (k, v)
