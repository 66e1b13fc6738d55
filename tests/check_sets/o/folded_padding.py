import torch


def folded_attention(x, wq, wk, wv, lengths, heads):
    """Self-attention with the heads folded into the batch.

    x (B, N, D), wq, wk, wv (D, D), lengths (B,) the number of valid positions of every sample -> (B, N, D)
    """
    B, N, D = x.shape

    def fold(z):
        return z.view(B, N, heads, D // heads).permute(0, 2, 1, 3).reshape(B * heads, N, D // heads)

    q, k, v = fold(x @ wq), fold(x @ wk), fold(x @ wv)
    padded = torch.arange(N, device=x.device)[None, :] >= lengths[:, None]
    padded = padded.repeat(heads, 1)
    sim = torch.baddbmm(torch.zeros(1, dtype=x.dtype), q, k.transpose(1, 2), alpha=(D // heads) ** -0.5)
    sim = sim.masked_fill(padded[:, None, :], torch.finfo(sim.dtype).min)
    y = torch.bmm(sim.softmax(-1), v)
    return y.view(B, heads, N, D // heads).permute(0, 2, 1, 3).reshape(B, N, D)
