"""Offset-attention of the Point Cloud Transformer (PCT), channels-first.

With energy[i, j] = q_i . k_j the authors use a double normalisation: softmax
along j, then each column j is divided by its sum (l1, eps 1e-9), and point j
receives   sum_i A[i, j] v_i  - so the weights of one *receiving* point add up
to one.  q and k share one weight, no 1/sqrt(d).

    y = x + relu(bn(W (x - attn)))          (the "offset")

``OffsetAttention(C)``: x (B, C, N) -> (B, C, N); C divisible by 4.
"""
import torch
import torch.nn as nn


class OffsetAttention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.q_conv = nn.Conv1d(channels, channels // 4, 1, bias=False)
        self.k_conv = nn.Conv1d(channels, channels // 4, 1, bias=False)
        self.q_conv.weight = self.k_conv.weight
        self.v_conv = nn.Conv1d(channels, channels, 1)
        self.trans_conv = nn.Conv1d(channels, channels, 1)
        self.after_norm = nn.BatchNorm1d(channels)
        self.act = nn.ReLU()

    def forward(self, x):
        x_q = self.q_conv(x).permute(0, 2, 1)      # b, n, c/4
        x_k = self.k_conv(x)                       # b, c/4, n
        x_v = self.v_conv(x)                       # b, c, n
        energy = x_q @ x_k
        attention = torch.softmax(energy, dim=-1)
        attention = attention / (1e-9 + attention.sum(dim=1, keepdim=True))
        x_r = x_v @ attention
        x_r = self.act(self.after_norm(self.trans_conv(x - x_r)))
        return x + x_r
