import torch
import torch.nn as nn
import torch.nn.functional as F


class EncoderLayer(nn.Module):
    """Pre-norm encoder layer.  src (batch, seq, d_model); src_key_padding_mask (batch, seq), True at padding."""

    def __init__(self, d_model, nhead=2, dim_feedforward=32, dropout=0.1):
        super().__init__()
        self.nhead, self.p = nhead, dropout
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.ff = nn.Sequential(
            nn.Linear(d_model, dim_feedforward), nn.GELU(), nn.Dropout(dropout), nn.Linear(dim_feedforward, d_model)
        )
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def attend(self, x, pad):
        q, k, v = self.in_proj(x).unflatten(-1, (3, self.nhead, -1)).permute(2, 0, 3, 1, 4)
        keep = None if pad is None else ~pad[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, dropout_p=self.p)
        return self.out_proj(y.transpose(1, 2).flatten(2))

    def forward(self, src, src_key_padding_mask=None):
        src = src + self.drop(self.attend(self.norm1(src), src_key_padding_mask))
        return src + self.drop(self.ff(self.norm2(src)))
