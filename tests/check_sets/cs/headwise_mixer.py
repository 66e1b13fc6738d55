import torch
from torch import nn


class HeadwiseTokenMixer(nn.Module):
    """Multi-head token mixing without input-dependent weights (MLP-Mixer, one per head).

    x: (B, L, dim) with a fixed number of tokens L.
    """

    def __init__(self, tokens, dim, heads=2, expansion=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Parameter(torch.randn(heads, tokens * expansion, tokens) * tokens ** -0.5)
        self.down = nn.Parameter(torch.randn(heads, tokens, tokens * expansion) * (tokens * expansion) ** -0.5)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        B, L, D = x.shape
        v = self.value(self.norm(x)).view(B, L, self.heads, D // self.heads).transpose(1, 2)
        hidden = torch.nn.functional.gelu(self.up @ v)
        mixed = self.down @ hidden
        return x + self.out(mixed.transpose(1, 2).reshape(B, L, D))
