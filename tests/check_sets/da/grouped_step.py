import torch


def _widen(t, times):
    return t.repeat(1, times, 1, 1)


def grouped_step(q, cache, layer, keep=None):
    """One decoding step.

    q      [batch, q_heads, 1, dim]
    cache  dict layer -> (k, v), each [batch, kv_heads, tokens, dim]
    keep   [batch, tokens] bool, True for tokens that count (one at least)
    Heads 0..g-1 of q belong to kv head 0, the next g to kv head 1, and so on.
    """
    k, v = cache[layer]
    times = q.shape[1] // k.shape[1]
    k, v = _widen(k, times), _widen(v, times)
    logits = torch.matmul(q, k.transpose(2, 3)).float() / q.shape[-1] ** 0.5
    if keep is not None:
        logits = logits.masked_fill(~keep[:, None, None, :], float("-inf"))
    probs = torch.softmax(logits, dim=-1).to(v.dtype)
    return torch.matmul(probs, v)
