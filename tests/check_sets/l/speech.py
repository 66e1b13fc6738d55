import torch
import torch.nn as nn


class BatchedHeads(nn.Module):
    """forward(query, key, value, mask): query (B, T, C); mask (B, T, S) bool, True = masked out."""

    def __init__(self, d_model: int = 16, num_heads: int = 4):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.query_proj = nn.Linear(d_model, d_model)
        self.key_proj = nn.Linear(d_model, d_model)
        self.value_proj = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        B = value.size(0)
        q = self.query_proj(query).view(B, -1, self.num_heads, self.d_head)
        k = self.key_proj(key).view(B, -1, self.num_heads, self.d_head)
        v = self.value_proj(value).view(B, -1, self.num_heads, self.d_head)
        q = q.permute(2, 0, 1, 3).contiguous().view(B * self.num_heads, -1, self.d_head)
        k = k.permute(2, 0, 1, 3).contiguous().view(B * self.num_heads, -1, self.d_head)
        v = v.permute(2, 0, 1, 3).contiguous().view(B * self.num_heads, -1, self.d_head)
        score = torch.bmm(q, k.transpose(1, 2)) / self.d_head ** 0.5
        if mask is not None:
            mask = mask.repeat_interleave(self.num_heads, dim=0)
            score = score.masked_fill(mask, -1e9)
        attn = torch.softmax(score, -1)
        context = torch.bmm(attn, v).view(self.num_heads, B, -1, self.d_head)
        return context.permute(1, 2, 0, 3).reshape(B, -1, self.num_heads * self.d_head)
