"""Caption decoder layer over detected image regions (bottom-up features, COCO).

words       (B, T, D)   embedded caption words with positions
regions     (B, R, D)   projected region features; an image has 10-36 regions, rest zeros
region_ok   (B, R) bool True for a real region, False for the zero rows of the padding.
            Only real regions may be attended.

Masked self attention over the caption (each word sees itself and the words before), cross
attention to the regions, feed forward; residual + LayerNorm after each.  Returns (B, T, D)
and the cross attention weights (B, T, R), averaged over the heads.
"""
import torch
from torch import nn


class CaptionLayer(nn.Module):
    def __init__(self, d_model=512, heads=8, d_ff=2048, dropout=0.1):
        super().__init__()
        self.self_att = nn.MultiheadAttention(d_model, heads, dropout, batch_first=True)
        self.enc_att = nn.MultiheadAttention(d_model, heads, dropout, batch_first=True)
        self.pwff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, words, regions, region_ok):
        T = words.size(1)
        future = torch.ones(T, T, dtype=torch.bool, device=words.device).triu(1)
        y, _ = self.self_att(words, words, words, attn_mask=future, need_weights=False)
        x = self.norm1(words + self.drop(y))
        y, att = self.enc_att(x, regions, regions, key_padding_mask=region_ok)
        x = self.norm2(x + self.drop(y))
        return self.norm3(x + self.drop(self.pwff(x))), att
