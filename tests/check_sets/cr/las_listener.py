import numpy as np
import torch
import torch.nn as nn


class MultiHeadListener(nn.Module):
    """Multi-head scaled dot-product attention between a speller and the listener's frames.

    query  [B, Q, dim]
    frames [B, T, dim]
    mask   [B, T] bool, True at padded frames (to be ignored); every utterance has a real frame.
    Returns context [B, Q, dim].
    """

    def __init__(self, dim: int = 32, num_heads: int = 4) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.d_head = dim // num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)

    def _fold(self, x: torch.Tensor) -> torch.Tensor:
        B, L, _ = x.shape
        x = x.view(B, L, self.num_heads, self.d_head).permute(2, 0, 1, 3)
        return x.reshape(self.num_heads * B, L, self.d_head)

    def forward(self, query, frames, mask=None):
        B, Q, _ = query.shape
        q = self._fold(self.query_proj(query))
        k = self._fold(self.key_proj(frames))
        v = self._fold(self.value_proj(frames))
        score = torch.bmm(q, k.transpose(1, 2)) / np.sqrt(k.size(1))
        if mask is not None:
            mask = mask.repeat_interleave(self.num_heads, dim=0).unsqueeze(1)
            score = score.masked_fill(mask, float("-inf"))
        context = torch.bmm(torch.softmax(score, -1), v)
        context = context.view(self.num_heads, B, Q, self.d_head).permute(1, 2, 0, 3)
        return self.out_proj(context.reshape(B, Q, -1))
