import torch


def padded_values(q, k, v, lengths):
    """k and v (B, S, D) are padded after lengths (B,) with whatever was in memory, NaN included, which must not reach the output."""
    pad = torch.arange(k.shape[1])[None, :] >= lengths[:, None]
    k = k.masked_fill(pad[:, :, None], 0.0)
    s = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
    p = torch.softmax(s.masked_fill(pad[:, None, :], float("-inf")), dim=-1)
    return torch.bmm(p, v)
