"""Local (sliding window) attention layer of an interleaved local/global decoder.

Conventions, same as in the Hugging Face config of the model:
  * `sliding_window` = W is the number of keys a token can read, the token itself
    counted.  Token i reads max(0, i - W + 1) ... i.
  * x (B, T, D) -> (B, T, D); GQA, query head h uses kv head h // (heads // kv_heads);
  * pad (B, T) bool, True at padding.  Padding is on the right, so a real token always
    has at least itself to read.
"""
import torch
import torch.nn.functional as F
from torch import nn


def local_mask(T: int, W: int, device) -> torch.Tensor:
    """(T, T) bool, True where query i (row) may read key j (column)."""
    i = torch.arange(T, device=device)[:, None]
    j = torch.arange(T, device=device)[None, :]
    age = i - j
    return (age >= 0) & (age <= W)


class LocalAttention(nn.Module):
    def __init__(self, D: int, heads: int, kv_heads: int, sliding_window: int):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        self.hd = D // heads
        self.sliding_window = sliding_window
        self.q_proj = nn.Linear(D, heads * self.hd, bias=False)
        self.k_proj = nn.Linear(D, kv_heads * self.hd, bias=False)
        self.v_proj = nn.Linear(D, kv_heads * self.hd, bias=False)
        self.o_proj = nn.Linear(heads * self.hd, D, bias=False)

    def forward(self, x: torch.Tensor, pad: torch.Tensor | None = None) -> torch.Tensor:
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, self.heads, self.hd).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.kv_heads, self.hd).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.kv_heads, self.hd).transpose(1, 2)
        rep = self.heads // self.kv_heads
        k, v = k.repeat_interleave(rep, dim=1), v.repeat_interleave(rep, dim=1)

        may = local_mask(T, self.sliding_window, x.device)[None, None]
        if pad is not None:
            # padded queries keep their own key, nobody reads their rows
            own = torch.eye(T, dtype=torch.bool, device=x.device)
            may = may & (~pad[:, None, None, :] | own)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=may)
        return self.o_proj(y.transpose(1, 2).reshape(B, T, -1))
