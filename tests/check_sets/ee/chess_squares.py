"""Squares of the chess board that talk to each other.

BoardMix(planes, clans):  planes = features of a square, clans = heads

forward(board, reach=None)
    board  (B, planes, 8, 8)    [.., rank, file]
    reach  (B, 64, 64) bool or None.  reach[b, s, t] True = square s may listen to square t
           (squares numbered 8 * rank + file).  A square may always listen to itself,
           whatever reach says.
returns (B, planes, 8, 8), added to the board.

Logit of s for t and clan c:  q_s.k_t / sqrt(planes / clans)
    + bias[c, rank_t - rank_s + 7, file_t - file_s + 7]
"""
import torch
from torch import nn


class BoardMix(nn.Module):
    def __init__(self, planes, clans):
        super().__init__()
        self.clans = clans
        self.qkv = nn.Conv2d(planes, 3 * planes, 1)
        self.back = nn.Conv2d(planes, planes, 1)
        self.bias = nn.Parameter(torch.randn(clans, 15, 15) * 0.2)
        r = torch.arange(64) // 8
        f = torch.arange(64) % 8
        self.register_buffer("dr", r[None, :] - r[:, None] + 7, persistent=False)
        self.register_buffer("df", f[None, :] - f[:, None] + 7, persistent=False)

    def forward(self, board, reach=None):
        B, C = board.shape[:2]
        # q, k, v: (B, clans, C/clans, 64), feature before square
        q, k, v = self.qkv(board).view(B, 3, self.clans, C // self.clans, 64).unbind(1)
        talk = q.transpose(2, 3) @ k / (C // self.clans) ** 0.5
        talk = talk + self.bias[:, self.dr, self.df]
        if reach is not None:
            own = torch.eye(64, dtype=torch.bool, device=board.device)
            talk = talk.masked_fill(~(reach | own)[:, None], float("-inf"))
        heard = v @ talk.softmax(-1).transpose(2, 3)          # (B, clans, C/clans, 64)
        return board + self.back(heard.reshape(B, C, 8, 8))
