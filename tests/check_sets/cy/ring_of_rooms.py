import torch
from torch import nn


class RingOfRooms(nn.Module):
    """Block-local attention on a ring of L cells (L a multiple of room).

    Odd layers use rooms shifted by half a room, so that neighbouring rooms
    exchange news. On the ring the last and the first cell are true neighbours,
    hence no mask. x (B, L, dim) -> (B, L, dim); output cell i = input cell i
    plus what it read in its room.
    """

    def __init__(self, dim, heads, room=4, odd=True):
        super().__init__()
        self.heads, self.room = heads, room
        self.shift = room // 2 if odd else 0
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        B, L, D = x.shape
        y = torch.roll(self.norm(x), -self.shift, dims=1)
        y = self.qkv(y).view(B, L // self.room, self.room, 3, self.heads, D // self.heads)
        q, k, v = y.permute(3, 0, 1, 4, 2, 5)
        w = (q @ k.transpose(-1, -2) / (D // self.heads) ** 0.5).softmax(dim=-1)
        y = (w @ v).transpose(2, 3).reshape(B, L, D)
        y = torch.roll(y, -self.shift, dims=1)
        return x + self.out(y)
