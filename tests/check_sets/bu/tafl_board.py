"""tafl_board.py -- position evaluator for hnefatafl (king's table), 7x7 "brandubh".

All heads talk to each other twice (Shazeer et al. 2020): once over the logits,
once over the weights.  The weights of one head after the second talk need not
sum to one; that is the method, not a slip.
"""
import torch
from torch import nn

SIDE = 7
EMPTY, ATTACKER, DEFENDER, KING = range(4)


def relative_index(side: int = SIDE) -> torch.Tensor:
    rc = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij"), -1).view(-1, 2)
    gap = rc[:, None] - rc[None] + side - 1
    return gap[..., 0] * (2 * side - 1) + gap[..., 1]


def corners(side: int = SIDE) -> torch.Tensor:
    """Corner squares belong to nobody until the king is there."""
    m = torch.zeros(side, side, dtype=torch.bool)
    m[[0, 0, -1, -1], [0, -1, 0, -1]] = True
    return m.flatten()


class TaflTalk(nn.Module):
    """squares (B, 49, C) ; hide (49,) bool: squares that nobody may look at (True = hidden)."""

    def __init__(self, c: int = 20, heads: int = 4, hide_corners: bool = True):
        super().__init__()
        self.heads = heads
        self.hd = c // heads
        self.proj = nn.ModuleDict({n: nn.Linear(c, c, bias=False) for n in "qkvo"})
        self.chat_before = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.chat_after = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.table = nn.Parameter(0.1 * torch.randn((2 * SIDE - 1) ** 2, heads))
        self.register_buffer("index", relative_index())
        self.register_buffer("hide", corners() if hide_corners else torch.zeros(SIDE * SIDE, dtype=torch.bool))

    def forward(self, squares: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.proj[n](squares).unflatten(2, (self.heads, self.hd)) for n in "qkv")
        logits = torch.einsum("bihd,bjhd->bhij", q, k) * self.hd ** -0.5
        logits = logits + self.table[self.index].permute(2, 0, 1)
        logits = torch.einsum("bhij,hg->bgij", logits, self.chat_before)
        logits = logits.masked_fill(self.hide, -torch.inf)
        w = logits.softmax(-1)
        w = torch.einsum("bgij,gh->bhij", w, self.chat_after)
        y = torch.einsum("bhij,bjhd->bihd", w, v)
        return self.proj["o"](y.flatten(2))


class TaflValue(nn.Module):
    def __init__(self, c: int = 20, depth: int = 2):
        super().__init__()
        self.piece = nn.Embedding(4, c)
        self.norms = nn.ModuleList(nn.LayerNorm(c) for _ in range(depth))
        self.talks = nn.ModuleList(TaflTalk(c) for _ in range(depth))
        self.value = nn.Linear(c, 1)

    def forward(self, board: torch.Tensor) -> torch.Tensor:
        h = self.piece(board.flatten(1))
        for norm, talk in zip(self.norms, self.talks):
            h = h + talk(norm(h))
        return torch.tanh(self.value(h.mean(1))).squeeze(-1)


if __name__ == "__main__":
    b = torch.zeros(1, SIDE, SIDE, dtype=torch.long)
    b[0, 3, 3] = KING
    print(TaflValue()(b))
