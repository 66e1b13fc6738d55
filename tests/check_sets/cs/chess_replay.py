import torch
from torch import nn


class ReplayAttention(nn.Module):
    """Causal multi-head self-attention over the moves of a chess game, with ALiBi.

    moves: (B, L, dim).  Move i sees the moves 0..i.  The bias is that of the ALiBi
    paper, slope_h = 2 ** (-8 (h + 1) / heads): the further back, the less weight.
    """

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        slope = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
        self.register_buffer("slope", slope.view(heads, 1, 1))

    def forward(self, moves):
        B, L, dim = moves.shape
        q = self.wq(moves).view(B, self.heads, L, self.d)
        k = self.wk(moves).view(B, self.heads, L, self.d)
        v = self.wv(moves).view(B, self.heads, L, self.d)
        t = torch.arange(L, device=moves.device)
        back = t[:, None] - t[None, :]
        s = q @ k.transpose(-2, -1) / self.d ** 0.5 + self.slope * back
        hide = torch.ones(L, L, dtype=torch.bool, device=moves.device).triu(diagonal=2)
        p = torch.softmax(s.masked_fill(hide, float("-inf")), dim=-1)
        return self.wo((p @ v).transpose(1, 2).reshape(B, L, dim))
