"""Second stage of the video recommender."""
import torch
from torch import nn


class ClipReranker(nn.Module):
    """Every candidate clip reads the watch history of the user and is scored again.

    clips (B, C, D), watched (B, W, D) -> scores (B, C)
    """

    def __init__(self, dim, inner=None):
        super().__init__()
        inner = inner or dim
        self.ask = nn.Linear(dim, inner, bias=False)
        self.key = nn.Linear(dim, inner, bias=False)
        self.val = nn.Linear(dim, inner, bias=False)
        self.temp = inner ** 0.5
        self.head = nn.Sequential(nn.Linear(dim + inner, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, clips, watched):
        q = self.ask(clips)
        k, v = self.key(watched), self.val(watched)
        match = torch.einsum("bcd,bwd->bcw", q, k) / self.temp
        taste = torch.softmax(match, dim=1)
        read = torch.bmm(taste, v)
        return self.head(torch.cat([clips, read], dim=-1)).squeeze(-1)
