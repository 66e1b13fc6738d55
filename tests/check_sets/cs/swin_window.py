import torch
import torch.nn as nn


class ShiftedWindowAttention(nn.Module):
    """Swin (shifted) window attention with relative position bias.

    x: (B, H, W, C), H and W multiples of ``window``.  With shift > 0 the map is rolled,
    and tokens that were not neighbours before the roll do not see one another.
    """

    def __init__(self, dim, window=4, shift=0, heads=2):
        super().__init__()
        self.M, self.shift, self.heads = window, shift, heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.5)
        c = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = c[:, :, None] - c[:, None, :] + window - 1
        self.register_buffer("rel_index", rel[0] * (2 * window - 1) + rel[1])

    def cut(self, x):
        B, H, W, C = x.shape
        M = self.M
        return x.view(B, H // M, M, W // M, M, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, M * M, C)

    def regions(self, H, W, device):
        def lane(n):
            r = torch.zeros(n, dtype=torch.long, device=device)
            r[n - self.M:n - self.shift] = 1
            r[n - self.shift:] = 2
            return r
        return lane(H)[:, None] * 3 + lane(W)[None, :]

    def forward(self, x):
        B, H, W, C = x.shape
        M, s = self.M, self.shift
        if s:
            x = torch.roll(x, (-s, -s), dims=(1, 2))
        win = self.cut(x)
        d = C // self.heads
        q, k, v = self.qkv(win).view(-1, M * M, 3, self.heads, d).permute(2, 0, 3, 1, 4)
        a = q @ k.transpose(-2, -1) * d ** -0.5
        a = a + self.table[self.rel_index].permute(2, 0, 1)
        if s:
            reg = self.cut(self.regions(H, W, x.device)[None, ..., None]).squeeze(-1)
            apart = reg[:, :, None] != reg[:, None, :]
            a = a.masked_fill(apart.repeat(B, 1, 1)[:, None], float("-inf"))
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(-1, M * M, C)
        y = self.proj(y).view(B, H // M, W // M, M, M, C).permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)
        return torch.roll(y, (s, s), dims=(1, 2)) if s else y
