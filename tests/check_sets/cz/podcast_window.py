import torch
import torch.nn as nn


def band(n, reach, device=None):
    i = torch.arange(n, device=device)
    gap = i[:, None] - i[None, :]
    return (gap >= 0) & (gap <= reach)


class PodcastWindow(nn.Module):
    """Streaming attention over podcast frames x (B, L, D).

    A frame reads `reach` frames in all: itself and the reach - 1 frames before it.
    The fused weight is stored head by head: for each head its q rows, its k rows, its v rows,
    i.e. (heads, 3, d) along the output axis.
    """

    def __init__(self, D=16, heads=4, reach=3):
        super().__init__()
        self.heads, self.reach = heads, reach
        self.query_key_value = nn.Linear(D, 3 * D)
        self.dense = nn.Linear(D, D)

    def forward(self, x):
        B, L, D = x.shape
        f = self.query_key_value(x).view(B, L, 3, self.heads, D // self.heads)
        q, k, v = f.permute(2, 0, 3, 1, 4)
        s = (q * (D // self.heads) ** -0.5) @ k.transpose(-1, -2)
        s = s.masked_fill(~band(L, self.reach, x.device), float("-inf"))
        return self.dense((torch.softmax(s, -1) @ v).transpose(1, 2).reshape(B, L, D))
