"""Blog: "Train short, test long -- ALiBi from scratch".

No position vectors at all. Each head subtracts  slope * distance  from its scores, so
far words count less; a steep head is short-sighted, a flat head sees far.
"""
import torch


def head_slopes(n_heads):
    """The geometric sequence of the paper: head number h = 1 .. n_heads has the slope
    2 ** (-8 * h / n_heads); 8 heads get 1/2, 1/4, ..., 1/256. n_heads: power of two."""
    return torch.tensor([2.0 ** (-8.0 * h / n_heads) for h in range(n_heads)])


def alibi_scores(q, k):
    """(B, H, T, d) twice -> biased scores (B, H, T, T)."""
    H, T, d = q.shape[1:]
    raw = torch.einsum("bhid,bhjd->bhij", q, k) / d ** 0.5
    i = torch.arange(T).unsqueeze(1)
    j = torch.arange(T).unsqueeze(0)
    penalty = head_slopes(H).reshape(H, 1, 1) * (i - j)
    return raw - penalty, j > i


def alibi_attention(q, k, v):
    """Causal attention with linear biases.

    q, k, v : (B, H, T, d)
    returns : (B, H, T, d);  out_i = sum over j <= i of
              softmax_j(q_i . k_j / sqrt(d) - slope_h * (i - j)) v_j
    """
    scores, future = alibi_scores(q, k)
    scores = scores.masked_fill(future, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return torch.einsum("bhij,bhjd->bhid", weights, v)


if __name__ == "__main__":
    torch.manual_seed(0)
    print(head_slopes(8))
    print(alibi_attention(*torch.randn(3, 1, 8, 5, 4)).shape)
