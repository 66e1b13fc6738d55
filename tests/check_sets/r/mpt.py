import torch
from torch import nn


def build_alibi_bias(n_heads, seq_len):
    """Bias (n_heads, 1, seq_len): minus the distance to the last token, times the head's slope.

    Slopes as in Press et al. 2022: the geometric sequence that starts at 2 ** (-8 / n) and has that same ratio,
    for n = 8 heads 1/2, 1/4, ..., 1/256.  n_heads is a power of two.
    """
    bias = torch.arange(1 - seq_len, 1, dtype=torch.float32).view(1, 1, seq_len)
    m = torch.arange(0, n_heads, dtype=torch.float32) * (8 / n_heads)
    slopes = 1.0 / torch.pow(2, m)
    return bias * slopes.view(n_heads, 1, 1)


class MPTAttention(nn.Module):
    """Causal self-attention with ALiBi.  x (B, S, d_model)."""

    def __init__(self, d_model, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.Wqkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        B, S, D = x.shape
        q, k, v = (t.view(B, S, self.n_heads, -1).transpose(1, 2) for t in self.Wqkv(x).chunk(3, dim=2))
        # softmax does not feel a constant per row, so the distance may be counted from the last token
        w = q @ k.mT * (D // self.n_heads) ** -0.5 + build_alibi_bias(self.n_heads, S).to(x)
        w = w.masked_fill(~torch.ones(S, S, dtype=torch.bool, device=x.device).tril(), torch.finfo(w.dtype).min)
        return self.out_proj((w.softmax(-1) @ v).transpose(1, 2).reshape(B, S, D))
