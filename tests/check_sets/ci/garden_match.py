"""Which bee visits which flower: cross attention with a different map for each garden.

bees    (G, b, D)   one row of bees for each garden
flowers (G, f, D)
fence   (G, b, f)   bool, True where a fence keeps this bee away from this flower.
                    Every bee can reach at least one flower of its own garden.
"""
import torch
import torch.nn as nn


class GardenMatch(nn.Module):
    def __init__(self, dim=16, wings=4, dropout=0.0):
        super().__init__()
        self.wings = wings                                   # number of heads
        self.visit = nn.MultiheadAttention(dim, wings, dropout=dropout, batch_first=True)
        self.norm_bee = nn.LayerNorm(dim)
        self.norm_flower = nn.LayerNorm(dim)
        self.honey = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.norm_out = nn.LayerNorm(dim)

    def forward(self, bees, flowers, fence):
        G, b, _ = bees.shape
        f = flowers.shape[1]
        nectar = self.norm_flower(flowers)
        # MultiheadAttention wants one map per garden and wing: (G * wings, b, f)
        closed = fence.repeat(self.wings, 1, 1)
        assert closed.shape == (G * self.wings, b, f)
        taken, trips = self.visit(self.norm_bee(bees), nectar, nectar, attn_mask=closed)
        bees = bees + taken
        bees = bees + self.honey(self.norm_out(bees))
        return bees, trips
