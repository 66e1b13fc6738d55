"""Post-norm Transformer decoder layer for our translation exercise (sheet 7).

    z = LN(y + SelfAttn(y));  z = LN(z + CrossAttn(z, memory));  z = LN(z + FFN(z))

forward(y, memory, y_pad=None, memory_pad=None)
    y           (batch, tgt_len, d_model)   shifted right target embeddings
    memory      (batch, src_len, d_model)   encoder output
    y_pad       (batch, tgt_len) bool       True = padding (only at the end of a row; y[:, 0] never is)
    memory_pad  (batch, src_len) bool       True = padding, at least one False per row
Returns (z, where): z (batch, tgt_len, d_model); where (batch, tgt_len, src_len), the cross
attention averaged over the heads, for plotting (in train mode dropout acts on z only
through the three residual branches; the attention itself has no dropout).
"""
import torch
from torch import nn


class PostNormDecoderLayer(nn.Module):
    def __init__(self, d_model=64, nhead=4, d_ff=256, p=0.1):
        super().__init__()
        self.selfatt = nn.MultiheadAttention(d_model, nhead, batch_first=True)
        self.cross = nn.MultiheadAttention(d_model, nhead, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.ln = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))
        self.drop = nn.Dropout(p)

    @staticmethod
    def no_peeking(n, device):
        # True = not allowed, MultiheadAttention's own reading of a boolean attn_mask
        return torch.ones(n, n, dtype=torch.bool, device=device).triu(1)

    def forward(self, y, memory, y_pad=None, memory_pad=None):
        future = self.no_peeking(y.size(1), y.device)
        a, _ = self.selfatt(y, y, y, attn_mask=future, key_padding_mask=y_pad, need_weights=False)
        z = self.ln[0](y + self.drop(a))

        a, where = self.cross(z, memory, memory, key_padding_mask=memory_pad)
        z = self.ln[1](z + self.drop(a))

        z = self.ln[2](z + self.drop(self.ffn(z)))
        return z, where
