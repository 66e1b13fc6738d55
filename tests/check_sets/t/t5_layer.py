import math

import torch
import torch.nn as nn


class T5SelfAttention(nn.Module):
    """
    Encoder self-attention of T5 with bucketed relative position bias.

    As in T5 the logits are not divided by sqrt(d_kv); the initialisation of
    the query projection has that factor in it already.

    Args:
        d_model: width of the residual stream
        d_kv: size of each head
        num_heads: number of heads (num_heads * d_kv need not be d_model)
    """

    def __init__(self, d_model=64, d_kv=8, num_heads=6, num_buckets=32, max_distance=128):
        super().__init__()
        inner = d_kv * num_heads
        self.h, self.d = num_heads, d_kv
        self.num_buckets, self.max_distance = num_buckets, max_distance
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(num_buckets, num_heads)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        for lin in (self.k, self.v):
            nn.init.normal_(lin.weight, std=d_model**-0.5)
        nn.init.normal_(self.o.weight, std=inner**-0.5)

    def bucket(self, relative_position):
        """relative_position = key position - query position, any sign."""
        n = self.num_buckets // 2
        out = (relative_position > 0).long() * n
        dist = relative_position.abs()
        exact = n // 2
        far = exact + (
            torch.log(dist.float().clamp(min=1) / exact) / math.log(self.max_distance / exact) * (n - exact)
        ).long()
        far = far.clamp(max=n - 1)
        return out + torch.where(dist < exact, dist, far)

    def position_bias(self, length, device):
        i = torch.arange(length, device=device)
        return self.relative_attention_bias(self.bucket(i[None, :] - i[:, None])).permute(2, 0, 1)[None]

    def forward(self, hidden, attention_mask=None):
        """
        hidden: (batch, length, d_model)
        attention_mask: (batch, length), 1 for tokens, 0 for padding
        """
        b, n, _ = hidden.shape
        q, k, v = (f(hidden).view(b, n, self.h, self.d).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.transpose(3, 2)) + self.position_bias(n, hidden.device)
        if attention_mask is not None:
            drop = (1.0 - attention_mask[:, None, None, :].to(scores.dtype)) * torch.finfo(scores.dtype).min
            scores = scores + drop
        weights = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
        ctx = torch.matmul(weights, v).transpose(1, 2).reshape(b, n, self.h * self.d)
        return self.o(ctx)
