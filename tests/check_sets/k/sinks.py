import torch


def sink_attention(q, k, v, sinks):
    """q (B, H, T, D), k and v (B, H, S, D); sinks (H,): one learned logit a head that joins the softmax and has no value."""
    b, h, t, d = q.shape
    logits = q @ k.mT / d ** 0.5
    col = sinks.view(1, h, 1, 1).expand(b, h, t, 1)
    logits = torch.cat([logits, col], dim=-1)
    probs = torch.softmax(logits, dim=-1)[..., :-1]
    return probs @ v
