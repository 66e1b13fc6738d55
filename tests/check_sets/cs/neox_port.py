import torch
from torch import nn


class NeoXAttention(nn.Module):
    """Port of the GPT-NeoX attention (no rotary part), causal.

    The checkpoint's fused ``query_key_value`` weight has its output rows ordered as
    (num_heads, 3, head_size): for head 0 its q, k, v, then for head 1 its q, k, v, ...
    """

    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_size = hidden_size // num_heads
        self.norm_factor = self.head_size ** -0.5
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, x):
        b, t, c = x.shape
        qkv = self.query_key_value(x).view(b, t, 3, self.num_heads, self.head_size)
        q, k, v = (a.transpose(1, 2) for a in qkv.unbind(2))
        scores = torch.matmul(q, k.transpose(-1, -2)) / self.norm_factor
        causal = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        scores = torch.where(causal, scores, torch.finfo(scores.dtype).min)
        y = torch.matmul(torch.softmax(scores, dim=-1), v)
        return self.dense(y.transpose(1, 2).reshape(b, t, c))
