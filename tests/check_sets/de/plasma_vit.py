import torch
import torch.nn as nn
import torch.nn.functional as F


class PlasmaBlock(nn.Module):
    """Transformer block on patches of tokamak camera frames.

    Input (B, C, H, W) of patch features, output the same. Standard scaled
    dot-product attention, dropout on the weights as regularisation in training.
    """

    def __init__(self, channels=32, n_head=4, p_drop=0.1):
        super().__init__()
        self.n_head = n_head
        self.scale = (channels // n_head) ** -0.5
        self.p_drop = p_drop
        self.norm1 = nn.LayerNorm(channels)
        self.norm2 = nn.LayerNorm(channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.proj = nn.Conv1d(channels, channels, 1)
        self.mlp = nn.Sequential(nn.Linear(channels, 2 * channels), nn.GELU(), nn.Linear(2 * channels, channels))

    def attend(self, x):
        # x: (B, C, N)
        B, C, N = x.shape
        q, k, v = self.qkv(x).view(B, 3, self.n_head, C // self.n_head, N).unbind(1)
        att = torch.einsum("bhci,bhcj->bhij", q, k) / self.scale
        att = att.softmax(dim=-1)
        att = F.dropout(att, p=self.p_drop)
        y = torch.einsum("bhij,bhcj->bhci", att, v)
        return self.proj(y.reshape(B, C, N))

    def forward(self, img):
        B, C, H, W = img.shape
        t = img.flatten(2).transpose(1, 2)
        t = t + self.attend(self.norm1(t).transpose(1, 2)).transpose(1, 2)
        t = t + self.mlp(self.norm2(t))
        return t.transpose(1, 2).view(B, C, H, W)
