import torch


def local_causal(q, k, v, window: int):
    """Causal sliding-window attention: each token attends to the last `window` tokens, itself included (as in Mistral).

    q, k, v [batch, heads, seq, dim].
    """
    n = q.size(2)
    idx = torch.arange(n, device=q.device)
    rel = idx[:, None] - idx[None, :]
    visible = (rel >= 0) & (rel <= window)
    w = (q @ k.transpose(-2, -1)) / q.size(-1) ** 0.5
    w = w.masked_fill(~visible, float("-inf")).softmax(dim=-1)
    return w @ v
