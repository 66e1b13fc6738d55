"""Transformer block of the meme caption generator."""
import numpy as np
import torch
import torch.nn as nn


class Settings:
    d_model = 48
    n_heads = 4
    ffn = 96
    device = "cpu"


class CaptionAttention(nn.Module):
    """Multi-head attention, text queries over image patches.

    text [B, T, d_model], patches [B, P, d_model]; scaled dot product per head
    (Vaswani et al., eq. 1), heads side by side in the output before `fc`.
    """

    def __init__(self, cfg=Settings):
        super().__init__()
        self.dim = cfg.d_model
        self.n_heads = cfg.n_heads
        self.d_k = self.dim // self.n_heads
        self.scale = np.sqrt(self.dim)
        self.wq = nn.Linear(self.dim, self.dim)
        self.wk = nn.Linear(self.dim, self.dim)
        self.wv = nn.Linear(self.dim, self.dim)
        self.fc = nn.Linear(self.dim, self.dim)

    def forward(self, text, patches):
        batch, t_len, p_len = text.size(0), text.size(1), patches.size(1)
        q = self.wq(text).view(batch, t_len, self.n_heads, self.d_k).permute(0, 2, 1, 3)
        k = self.wk(patches).view(batch, p_len, self.n_heads, self.d_k).permute(0, 2, 1, 3)
        v = self.wv(patches).view(batch, p_len, self.n_heads, self.d_k).permute(0, 2, 1, 3)
        energy = torch.matmul(q, k.permute(0, 1, 3, 2)) / self.scale
        attention = torch.softmax(energy, dim=-1)
        x = torch.matmul(attention, v)
        x = x.contiguous().view(batch, t_len, self.dim)
        return self.fc(x), attention


class CaptionBlock(nn.Module):
    def __init__(self, cfg=Settings):
        super().__init__()
        self.cross = CaptionAttention(cfg)
        self.n1 = nn.LayerNorm(cfg.d_model)
        self.n2 = nn.LayerNorm(cfg.d_model)
        self.ffn = nn.Sequential(nn.Linear(cfg.d_model, cfg.ffn), nn.ReLU(), nn.Linear(cfg.ffn, cfg.d_model))

    def forward(self, text, patches):
        c, att = self.cross(text, patches)
        text = self.n1(text + c)
        return self.n2(text + self.ffn(text)), att


def top_patches(att, k=3):
    """Where did each word look? mean over heads -> [B, T, k] patch numbers"""
    return att.mean(dim=1).topk(k, dim=-1).indices


if __name__ == "__main__":
    block = CaptionBlock()
    y, a = block(torch.randn(2, 5, 48), torch.randn(2, 9, 48))
    print(y.shape, top_patches(a)[0])
