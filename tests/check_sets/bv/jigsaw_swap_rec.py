"""Recommending jigsaw puzzles in a swap club, with an explanation for the member.

A candidate puzzle queries the member's past swaps.  The attention map is shown in the
app ("because you solved ..."), so the model returns it next to the score: for every
candidate the percentages over the history sum to 100.
"""
from typing import Dict, List, Tuple

import torch
from torch import nn


class SwapHistoryAttention(nn.Module):
    """Cross-attention candidate -> history.

    Args to forward:
        cand: [B, C, D] candidates
        hist: [B, L, D] past swaps
        hist_mask: [B, L], 1 for a real swap, 0 for padding (at least one real swap)
    Returns:
        mixed: [B, C, D]
        share: [B, C, L] attention probabilities averaged over the heads (rows sum to one)
    """

    def __init__(self, dim: int, heads: int, dropout: float = 0.1):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, cand, hist, hist_mask) -> Tuple[torch.Tensor, torch.Tensor]:
        B, C, D = cand.shape
        L = hist.size(1)
        q = self.wq(cand).reshape(B, C, self.heads, self.head_dim).permute(0, 2, 1, 3)
        k = self.wk(hist).reshape(B, L, self.heads, self.head_dim).permute(0, 2, 3, 1)
        v = self.wv(hist).reshape(B, L, self.heads, self.head_dim).permute(0, 2, 1, 3)

        energy = torch.matmul(q, k) * self.head_dim ** -0.5
        energy = energy.masked_fill(hist_mask[:, None, None, :] == 0, torch.finfo(energy.dtype).min)
        probs = energy.softmax(dim=-1)
        probs = self.drop(probs)
        mixed = torch.matmul(probs, v).permute(0, 2, 1, 3).reshape(B, C, D)
        return self.wo(mixed), probs.mean(dim=1)


class JigsawRanker(nn.Module):
    def __init__(self, n_puzzles: int, n_tags: int = 12, dim: int = 32, heads: int = 4):
        super().__init__()
        self.puzzle = nn.Embedding(n_puzzles + 1, dim, padding_idx=0)
        self.tags = nn.Linear(n_tags, dim, bias=False)
        self.attn = SwapHistoryAttention(dim, heads)
        self.tower = nn.Sequential(nn.Linear(3 * dim, dim), nn.PReLU(), nn.Linear(dim, 1))

    def forward(self, batch: Dict[str, torch.Tensor]):
        cand = self.puzzle(batch["cand"]) + self.tags(batch["cand_tags"])
        hist = self.puzzle(batch["hist"])
        mixed, share = self.attn(cand, hist, batch["hist"].ne(0).long())
        score = self.tower(torch.cat([cand, mixed, cand * mixed], dim=-1)).squeeze(-1)
        return score, share


def explain(share: torch.Tensor, titles: List[str], top: int = 2) -> List[str]:
    val, idx = share.topk(min(top, share.numel()))
    return [f"{titles[i]} ({100 * p:.0f} %)" for p, i in zip(val.tolist(), idx.tolist())]


if __name__ == "__main__":
    net = JigsawRanker(40).eval()
    data = dict(cand=torch.tensor([[5, 9]]), cand_tags=torch.rand(1, 2, 12), hist=torch.tensor([[3, 8, 11, 0]]))
    s, w = net(data)
    print(s, explain(w[0, 0, :3], ["Neuschwanstein", "Owls", "Tube map"]))
