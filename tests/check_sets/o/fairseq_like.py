import torch
from torch import nn


class MultiheadAttention(nn.Module):
    """Time first, as in old sequence-to-sequence toolkits: query (T, B, C), key and value (S, B, C) -> (T, B, C)."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.scaling = self.head_dim ** -0.5
        self.q_proj, self.k_proj = nn.Linear(embed_dim, embed_dim), nn.Linear(embed_dim, embed_dim)
        self.v_proj, self.out_proj = nn.Linear(embed_dim, embed_dim), nn.Linear(embed_dim, embed_dim)

    def forward(self, query, key, value):
        tgt_len, bsz, embed_dim = query.size()
        q = self.q_proj(query) * self.scaling
        k, v = self.k_proj(key), self.v_proj(value)
        q = q.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k = k.contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        v = v.contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        weights = torch.bmm(q, k.transpose(1, 2)).softmax(dim=-1)
        attn = torch.bmm(weights, v)
        attn = attn.view(self.num_heads, bsz, tgt_len, self.head_dim).permute(2, 1, 0, 3).reshape(tgt_len, bsz, embed_dim)
        return self.out_proj(attn)
