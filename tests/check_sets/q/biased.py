import torch


def biased_attention(q, k, v, rel_bias, valid):
    """
    q, k, v   (B, H, N, d)
    rel_bias  (B, H, N, N)  added to the logits
    valid     (B, N)        bool, keys that exist
    """
    hidden = ~valid[:, None, None, :]
    logits = torch.einsum("bhid,bhjd->bhij", q, k) / q.size(-1) ** 0.5
    bias = rel_bias.masked_fill_(hidden, -1e9)
    return torch.einsum("bhij,bhjd->bhid", (logits + bias).softmax(dim=-1), v)
