"""Grouped-query self-attention of a small vision-language-action model.

x (B, L, dim): image tokens, instruction tokens, action tokens, in this order.
Causal: token i reads tokens 0..i.
n_q query heads share n_kv key/value heads; query heads g*G .. g*G+G-1 with
G = n_q // n_kv belong to key/value head g (consecutive query heads share one,
the Llama convention; the released checkpoint is converted that way).
softmax( q k^T / sqrt(head_dim) ) v, then the output projection.  (B, L, dim).
"""
import torch
from torch import nn


class GripperAttention(nn.Module):
    def __init__(self, dim, n_q, n_kv, head_dim):
        super().__init__()
        self.n_q, self.n_kv, self.hd = n_q, n_kv, head_dim
        self.q_proj = nn.Linear(dim, n_q * head_dim, bias=False)
        self.k_proj = nn.Linear(dim, n_kv * head_dim, bias=False)
        self.v_proj = nn.Linear(dim, n_kv * head_dim, bias=False)
        self.o_proj = nn.Linear(n_q * head_dim, dim, bias=False)
        self.scaling = head_dim ** -0.5

    def share(self, t):
        """(B, n_kv, L, hd) -> (B, n_q, L, hd)"""
        b, _, l, d = t.shape
        t = t[:, None].expand(b, self.n_q // self.n_kv, self.n_kv, l, d)
        return t.reshape(b, self.n_q, l, d)

    def forward(self, x):
        b, l, _ = x.shape
        q = self.q_proj(x).view(b, l, self.n_q, self.hd).transpose(1, 2)
        k = self.k_proj(x).view(b, l, self.n_kv, self.hd).transpose(1, 2)
        v = self.v_proj(x).view(b, l, self.n_kv, self.hd).transpose(1, 2)
        k, v = self.share(k), self.share(v)

        logits = torch.matmul(q, k.transpose(2, 3)) / self.scaling
        future = torch.triu(torch.ones(l, l, dtype=torch.bool, device=x.device), diagonal=2)
        logits = logits.masked_fill(future, torch.finfo(logits.dtype).min)
        probs = torch.softmax(logits.float(), dim=-1).to(q.dtype)
        y = torch.matmul(probs, v).transpose(1, 2).reshape(b, l, -1)
        return self.o_proj(y)
