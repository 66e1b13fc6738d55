import torch.nn as nn


class SelfAttn(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.attn = nn.MultiheadAttention(d, h, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(d)

    def forward(self, x, padding=None):
        """x (B, T, d); padding (B, T) bool, True at padded positions"""
        y, _ = self.attn(x, x, x, key_padding_mask=padding, need_weights=False)
        return self.norm(x + y)
