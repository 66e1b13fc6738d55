import torch
from torch import nn


class BeamLayer(nn.Module):
    """Self-attention of a caption decoder during beam search, one token per call.

    layer.reset(); then layer(x, parents) per step:
    x        (N, dim)  newest token of each of the N beams
    parents  (N,) long or None; beam n continues what was beam parents[n] at the last step
    """

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.reset()

    def reset(self):
        self.past = {}

    def _follow(self, parents):
        self.past["k"] = self.past["k"].index_select(0, parents)

    def forward(self, x, parents=None):
        q, k, v = self.qkv(x).view(-1, 3, self.heads, 1, self.hd).unbind(1)
        if self.past:
            if parents is not None:
                self._follow(parents)
            k = torch.cat([self.past["k"], k], dim=2)
            v = torch.cat([self.past["v"], v], dim=2)
        self.past = {"k": k, "v": v}
        w = ((q * self.hd ** -0.5) @ k.mT).softmax(-1)
        return self.out((w @ v).flatten(1))
