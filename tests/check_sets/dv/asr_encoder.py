# encoder.py -- part of a small CTC recogniser
import torch
import torch.nn as nn
import torch.nn.functional as F


def lengths_to_mask(lengths: torch.Tensor, max_len: int) -> torch.Tensor:
    """(B,) frame counts -> bool (B, max_len), True where there is speech."""
    return torch.arange(max_len, device=lengths.device)[None] < lengths[:, None]


class AsrLayer(nn.Module):
    """One encoder layer of the recogniser (post-norm).

    Args:
        x:       [batch, frames, dim] filterbank features after subsampling
        lengths: [batch] number of valid frames, 1 <= lengths <= frames; the rest is padding and
                 must not be read by anybody
    Returns [batch, frames, dim]; padded frames come back as zeros. Attention dropout only while
    training.
    """

    def __init__(self, dim: int = 48, heads: int = 6, ff: int = 96, dropout: float = 0.1):
        super().__init__()
        self.h = heads
        self.p = dropout
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, ff), nn.SiLU(), nn.Dropout(dropout), nn.Linear(ff, dim))
        self.ln_a = nn.LayerNorm(dim)
        self.ln_f = nn.LayerNorm(dim)

    def _heads(self, t: torch.Tensor) -> torch.Tensor:
        # b t (h d) -> b h t d
        return t.unflatten(-1, (self.h, -1)).transpose(1, 2)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        keep = lengths_to_mask(lengths, x.size(1))                      # b t
        q, k, v = self._heads(self.to_q(x)), self._heads(self.to_k(x)), self._heads(self.to_v(x))
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=keep[:, None, None, :], dropout_p=self.p if self.training else 0.0
        )
        y = y.transpose(1, 2).flatten(-2)                               # b t (h d)
        x = self.ln_a(x + self.proj(y))
        x = self.ln_f(x + self.ff(x))
        return x * keep.unsqueeze(-1)
