import torch
import torch.nn as nn


class CrissCrossAttention(nn.Module):
    """CCNet: each pixel attends to the H + W - 1 pixels of its own column and row.

    x: (B, C, H, W) -> (B, C, H, W); like the original, the scores are not scaled.
    """

    def __init__(self, in_dim=16, reduction=4):
        super().__init__()
        self.query_conv = nn.Conv2d(in_dim, in_dim // reduction, 1)
        self.key_conv = nn.Conv2d(in_dim, in_dim // reduction, 1)
        self.value_conv = nn.Conv2d(in_dim, in_dim, 1)
        self.gamma = nn.Parameter(torch.full((1,), 0.5))

    def forward(self, x):
        q, k, v = self.query_conv(x), self.key_conv(x), self.value_conv(x)
        H, W = x.shape[2:]
        col = torch.einsum("bchw,bcgw->bhwg", q, k)
        row = torch.einsum("bchw,bchu->bhwu", q, k)
        # the pixel itself is in both: drop it from the column
        eye = torch.eye(H, dtype=torch.bool, device=x.device)[None, :, None, :]
        col = col.masked_fill(eye, float("-inf"))
        att = torch.cat([col, row], dim=3).softmax(dim=3)
        out = torch.einsum("bhwg,bcgw->bchw", att[..., :H], v) + torch.einsum("bhwu,bchu->bchw", att[..., H:], v)
        return self.gamma * out + x
