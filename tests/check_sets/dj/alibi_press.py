"""ALiBi: Train Short, Test Long (Press, Smith, Lewis 2022), any number of heads.

softmax(q_i K^T / sqrt(d) + m_h * [-(i-0), ..., -2, -1, 0])

For n heads, n a power of two, the slopes are 2^(-8/n), 2^(-16/n), ..., 2^-8.
Otherwise, as in the authors' code: the slopes of the closest power of two below n,
and then the missing ones are every other slope (1st, 3rd, ...) of twice that power.
"""
import torch
import torch.nn.functional as F


def slopes_for(n):
    def pow2(m):
        start = 2.0 ** (-8.0 / m)
        return [start ** (t + 1) for t in range(m)]

    p = 1
    while p * 2 <= n:
        p *= 2
    out = pow2(p)
    if p != n:
        out += pow2(2 * p)[0::2][: n - p]
    return torch.tensor(out)


def alibi_attention(q, k, v, pad=None):
    """Causal attention with linear biases.

    q        (B, H, T, d)   the newest T positions
    k, v     (B, H, S, d)   all positions so far, S >= T; q[:, :, -1] and k[:, :, -1]
                            belong to the same position
    pad      (B, S) bool or None, True = padding key (always on the right end of the
                            prompt, position 0 is never padding)
    returns  (B, H, T, d)
    """
    H, T = q.shape[1:3]
    S = k.shape[2]
    i = torch.arange(S - T, S, device=q.device).unsqueeze(1)
    j = torch.arange(S, device=q.device).unsqueeze(0)
    far = (i - j).to(q.dtype)                                   # >= 0 in the past
    bias = -slopes_for(H).to(q)[:, None, None] * far            # (H, T, S)
    bias = bias.masked_fill(j > i, float("-inf"))[None]
    if pad is not None:
        bias = bias.masked_fill(pad[:, None, None, :], float("-inf"))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
