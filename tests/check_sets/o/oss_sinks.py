import torch
import torch.nn as nn


class AttentionBlock(nn.Module):
    """Grouped-query attention with a learned sink for each head: one more logit in the softmax, whose weight is thrown away."""

    def __init__(self, hidden=24, heads=4, kv_heads=2, head_dim=6, sliding_window=0):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.sliding_window = sliding_window
        self.norm = nn.RMSNorm(hidden, eps=1e-5)
        self.sinks = nn.Parameter(torch.randn(heads))
        self.qkv = nn.Linear(hidden, head_dim * (heads + 2 * kv_heads))
        self.out = nn.Linear(heads * head_dim, hidden)
        self.sm_scale = 1 / head_dim**0.5

    def sdpa(self, Q, K, V):
        # Q (n, kv_heads, group, d); K, V (n, kv_heads, d)
        n_tokens, n_heads, q_mult, d_head = Q.shape
        K = K[:, :, None, :].expand(-1, -1, q_mult, -1)
        V = V[:, :, None, :].expand(-1, -1, q_mult, -1)
        S = self.sinks.reshape(n_heads, q_mult, 1, 1).expand(-1, -1, n_tokens, -1)
        mask = torch.triu(Q.new_full((n_tokens, n_tokens), -float("inf")), diagonal=1)
        if self.sliding_window > 0:
            mask += torch.tril(mask.new_full((n_tokens, n_tokens), -float("inf")), diagonal=-self.sliding_window)
        QK = torch.einsum("qhmd,khmd->hmqk", Q, K)
        QK *= self.sm_scale
        QK += mask[None, None, :, :]
        QK = torch.cat([QK, S], dim=-1)
        W = torch.softmax(QK, dim=-1)
        W = W[..., :-1]
        return torch.einsum("hmqk,khmd->qhmd", W, V).reshape(n_tokens, -1)

    def forward(self, x):
        """x: (n_tokens, hidden)"""
        t = self.qkv(self.norm(x))
        a, b = self.heads * self.head_dim, (self.heads + self.kv_heads) * self.head_dim
        q = t[:, :a].reshape(-1, self.kv_heads, self.heads // self.kv_heads, self.head_dim)
        k = t[:, a:b].reshape(-1, self.kv_heads, self.head_dim)
        v = t[:, b:].reshape(-1, self.kv_heads, self.head_dim)
        return x + self.out(self.sdpa(q, k, v))
