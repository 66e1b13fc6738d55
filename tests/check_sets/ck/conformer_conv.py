"""Conformer convolution module: pointwise conv + GLU, depthwise conv, norm, swish, pointwise conv."""
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


class ConvolutionModule(nn.Module):
    """
    Args:
        dim: model width
        kernel_size: odd width of the depthwise convolution ("same" padding)

    Inputs: x (batch, time, dim), lengths (batch,)
    Frames after the end of an utterance are set to zero so that they do not leak into
    its last frames through the convolution.
    """

    def __init__(self, dim: int = 24, kernel_size: int = 5, dropout_p: float = 0.1):
        super().__init__()
        assert kernel_size % 2 == 1
        self.norm = nn.LayerNorm(dim)
        self.pointwise_in = nn.Linear(dim, 2 * dim)
        self.depthwise = nn.Conv1d(dim, dim, kernel_size, padding=kernel_size // 2, groups=dim, bias=False)
        self.mid_norm = nn.LayerNorm(dim)
        self.pointwise_out = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, x: Tensor, lengths: Optional[Tensor] = None) -> Tensor:
        value, gate = self.pointwise_in(self.norm(x)).chunk(2, dim=-1)
        y = value * torch.sigmoid(gate)
        if lengths is not None:
            mask = torch.arange(x.size(1), device=x.device)[None, :] < lengths[:, None]
            y = y * mask.unsqueeze(-1).to(y.dtype)
        y = self.depthwise(y.transpose(1, 2)).transpose(1, 2)
        y = F.silu(self.mid_norm(y))
        return self.dropout(self.pointwise_out(y))
