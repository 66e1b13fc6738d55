"""Audio tagging on log-mel patches: multi-head self-attention in the old TF style, where the
heads are stacked along the batch axis.

x     : (N, T, C) patch embeddings
valid : (N, T) bool, True for patches of the recording, False for the silence appended at
        the end of a clip (ignored as keys; every clip has valid patches)

C is split in `num_heads` equal parts, each part is attended by its own head with 1/sqrt(C / heads),
and the parts are put side by side again.  Residual + LayerNorm.  Returns (N, T, C).
"""
import torch
import torch.nn as nn


class StackedHeadsAttention(nn.Module):
    def __init__(self, channels, num_heads=4, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.Q = nn.Linear(channels, channels)
        self.K = nn.Linear(channels, channels)
        self.V = nn.Linear(channels, channels)
        self.drop = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(channels)

    def forward(self, x, valid):
        N, T, C = x.shape
        h = self.num_heads
        # (h*N, T, C/h)
        Q_ = torch.cat(torch.chunk(self.Q(x), h, dim=2), dim=0)
        K_ = torch.cat(torch.chunk(self.K(x), h, dim=2), dim=0)
        V_ = torch.cat(torch.chunk(self.V(x), h, dim=2), dim=0)

        outputs = torch.bmm(Q_, K_.transpose(1, 2)) / (K_.size(-1) ** 0.5)
        key_masks = valid.repeat(h, 1).unsqueeze(1)              # (h*N, 1, T)
        outputs = outputs.masked_fill(~key_masks, -2 ** 32 + 1)
        outputs = self.drop(torch.softmax(outputs, dim=-1))
        outputs = torch.bmm(outputs, V_)

        # restore shape
        outputs = outputs.view(N, h, T, C // h).permute(0, 2, 1, 3).reshape(N, T, C)
        return self.norm(outputs + x)
