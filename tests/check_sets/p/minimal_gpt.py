import torch


def causal_self_attention(q, k, v):
    """q, k, v (B, H, T, D).  Token t attends to the tokens 0 ... t.  The arguments are left as they are."""
    q *= q.shape[-1] ** -0.5
    t = q.shape[-2]
    seen = torch.ones(t, t, dtype=torch.bool, device=q.device).tril(1)
    scores = (q @ k.transpose(-2, -1)).masked_fill(~seen, float("-inf"))
    return scores.softmax(-1) @ v
