import torch
import torch.nn as nn
import torch.nn.functional as F


class GatedConvEncoder(nn.Module):
    """Encoder of the convolutional seq2seq paper: stacked 1-D convolutions with gated linear units."""

    def __init__(self, dim=32, layers=3, width=3, p=0.1):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(dim, 2 * dim, width, padding=width // 2) for _ in range(layers))
        self.p = p

    def forward(self, x, pad=None):
        """x (B, L, dim), pad (B, L) True on padding -> (B, L, dim)"""
        h = x.transpose(1, 2)
        for conv in self.convs:
            if pad is not None:
                h = h.masked_fill(pad[:, None, :], 0.0)
            z = F.dropout(h, self.p, training=self.training)
            h = (F.glu(conv(z), dim=1) + h) * 0.5 ** 0.5
        return h.transpose(1, 2)
