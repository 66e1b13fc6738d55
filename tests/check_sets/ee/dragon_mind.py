"""The dragon decides which heroes to watch (self-play agent, entity encoder).

DragonMind(d_hero, d_dragon, heads, e, cap=5.0)

forward(dragon, heroes, hidden)
    dragon  (B, d_dragon)
    heroes  (B, N, d_hero)
    hidden  (B, N) bool     True = the hero is invisible; the dragon cannot watch him,
                            not even a little. At least one hero is visible.
returns
    thought (B, heads * e)
    watch   (B, heads, N)   shares of the visible heroes, 0 for the hidden

Order of operations on the logits:  q.k / sqrt(e)  ->  cap * tanh(. / cap)  ->  hidden
heroes removed  ->  softmax over heroes.
"""
import torch
from torch import nn


class DragonMind(nn.Module):
    def __init__(self, d_hero, d_dragon, heads, e, cap=5.0):
        super().__init__()
        self.heads, self.e, self.cap = heads, e, cap
        self.eye = nn.Linear(d_dragon, heads * e)
        self.scent = nn.Linear(d_hero, heads * e)
        self.worth = nn.Linear(d_hero, heads * e)

    def forward(self, dragon, heroes, hidden):
        B, N, _ = heroes.shape
        eye = self.eye(dragon).view(B, self.heads, self.e)
        scent = self.scent(heroes).view(B, N, self.heads, self.e)
        worth = self.worth(heroes).view(B, N, self.heads, self.e)
        fear = torch.einsum("bhe,bnhe->bhn", eye, scent)
        fear = fear.masked_fill(hidden.unsqueeze(1), float("-inf"))
        fear = self.cap * torch.tanh(fear / self.cap)
        watch = fear.softmax(dim=-1)
        thought = torch.einsum("bhn,bnhe->bhe", watch, worth)
        return thought.flatten(1), watch


if __name__ == "__main__":
    net = DragonMind(6, 9, 2, 4)
    t, w = net(torch.randn(3, 9), torch.randn(3, 5, 6), torch.rand(3, 5) < 0.3)
    print(t.shape, w.sum(-1))
