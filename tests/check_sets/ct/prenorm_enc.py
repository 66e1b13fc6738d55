"""Pre-norm encoder block around torch's own multi-head attention (ECG beats)."""
import torch
import torch.nn as nn


class EncoderBlock(nn.Module):
    """
    beats : (B, L, width)
    real  : (B, L) bool, True where there is a beat, False on padding. At
            least one beat per record.

    Returns the new states; with need_weights=True also the weights averaged
    over heads, (B, L, L), which are taken before dropout has any say because
    the layer's attention dropout is zero.
    """

    def __init__(self, width=32, heads=4, inner=64, drop=0.1):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.ln2 = nn.LayerNorm(width)
        self.mha = nn.MultiheadAttention(width, heads, dropout=0.0, batch_first=True)
        self.ff = nn.Sequential(
            nn.Linear(width, inner), nn.GELU(), nn.Dropout(drop), nn.Linear(inner, width)
        )
        self.drop = nn.Dropout(drop)
        # layer scale, starts smaller than one
        self.g1 = nn.Parameter(torch.full((width,), 0.3))
        self.g2 = nn.Parameter(torch.full((width,), 0.3))

    def forward(self, beats, real=None, need_weights=False):
        h = self.ln1(beats)
        # torch wants True = leave out
        ignore = None if real is None else real.logical_not()
        a, w = self.mha(h, h, h, key_padding_mask=ignore, need_weights=need_weights)
        beats = beats + self.g1 * self.drop(a)
        beats = beats + self.g2 * self.drop(self.ff(self.ln2(beats)))
        if need_weights:
            return beats, w
        return beats
