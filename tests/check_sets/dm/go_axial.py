"""Axial attention trunk for 9x9 / 13x13 / 19x19 Go.

board (B, C, S, S), any S.  A block first lets every point look along its own ROW
(same y, all x), then along its own COLUMN (same x, all y), each with its own
projection and a residual connection.  Heads are groups of channels,
scores are scaled by 1/sqrt(C / heads).  No mask: the whole row / column is visible.

Output (B, C, S, S).
"""
import torch
import torch.nn as nn


class LineAttention(nn.Module):
    """Attention along the last axis of (B, C, A, S); A is only a batch axis."""

    def __init__(self, C, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Conv2d(C, 3 * C, 1, bias=False)
        self.proj = nn.Conv2d(C, C, 1)

    def forward(self, x):
        B, C, A, S = x.shape
        q, k, v = self.qkv(x).reshape(B, 3, self.heads, C // self.heads, A, S).unbind(1)
        logits = torch.einsum("bhcas,bhcat->bhast", q, k) * (C // self.heads) ** -0.5
        prob = logits.softmax(dim=4)
        y = torch.einsum("bhast,bhcat->bhcas", prob, v)
        return self.proj(y.reshape(B, C, A, S))


class AxialBlock(nn.Module):
    def __init__(self, C, heads):
        super().__init__()
        self.row = LineAttention(C, heads)
        self.col = LineAttention(C, heads)
        self.norm_r = nn.GroupNorm(1, C)
        self.norm_c = nn.GroupNorm(1, C)

    def forward(self, board):
        # board[b, c, y, x]
        board = board + self.row(self.norm_r(board))
        flipped = self.norm_c(board).transpose(2, 3)
        return board + self.col(flipped).transpose(2, 3)
