import torch
import torch.nn as nn


class RelTransformerStage(nn.Module):
    """CoAtNet "T" block on a feature map.

    x: (B, C, H, W) with (H, W) = size.  Logits are q.k / sqrt(head_dim) plus a learned
    translation-equivariant bias per head; pre-norm residual.
    """

    def __init__(self, C, size=(7, 7), heads=4):
        super().__init__()
        H, W = size
        self.size, self.heads = size, heads
        self.head_dim = C // heads
        self.scale = C ** -0.5
        self.norm = nn.LayerNorm(C)
        self.qkv = nn.Linear(C, 3 * C)
        self.proj = nn.Linear(C, C)
        self.bias = nn.Parameter(torch.randn(heads, 2 * H - 1, 2 * W - 1) * 0.02)
        y, x = torch.meshgrid(torch.arange(H), torch.arange(W), indexing="ij")
        y, x = y.flatten(), x.flatten()
        self.register_buffer("dy", y[:, None] - y[None] + H - 1)
        self.register_buffer("dx", x[:, None] - x[None] + W - 1)
        self.ff_norm = nn.LayerNorm(C)
        self.ff = nn.Sequential(nn.Linear(C, 4 * C), nn.GELU(), nn.Linear(4 * C, C))

    def forward(self, x):
        B, C, H, W = x.shape
        t = x.flatten(2).transpose(1, 2)
        qkv = self.qkv(self.norm(t)).reshape(B, H * W, 3, self.heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        logits = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        logits = logits + self.bias[:, self.dy, self.dx]
        y = torch.einsum("bhij,bhjd->bihd", logits.softmax(-1), v).reshape(B, H * W, C)
        t = t + self.proj(y)
        t = t + self.ff(self.ff_norm(t))
        return t.transpose(1, 2).reshape(B, C, H, W)
