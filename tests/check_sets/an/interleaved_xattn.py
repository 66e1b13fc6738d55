"""Gated cross attention of text on interleaved images (Flamingo like).

A batch may mix documents: images are padded to the largest count, and text-only documents
(no image at all) are allowed, they must come out finite.
"""
import torch
import torch.nn as nn


class GatedImageAttention(nn.Module):
    """
    text        (B, T, D)
    images      (B, M, P, D)     M images with P patches each
    text_pos    (B, T)  number of images that stand before each text token
    image_count (B,)    real images of each document, the others are padding
    A token sees the patches of the images before it.
    """

    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.gate = nn.Parameter(torch.tensor([0.5]))

    def _additive(self, text_pos, image_count, M, P, dtype):
        low = torch.finfo(dtype).min
        idx = torch.arange(M, device=text_pos.device)
        later = (idx[None, None] >= text_pos[..., None]).to(dtype) * low          # (B, T, M)
        absent = (idx[None] >= image_count[:, None]).to(dtype) * low              # (B, M)
        bias = later + absent[:, None]
        return bias.repeat_interleave(P, dim=-1)[:, None]

    def forward(self, text, images, text_pos, image_count):
        B, T, D = text.shape
        M, P = images.shape[1:3]
        h = self.heads
        q = self.q(self.norm(text)).reshape(B, T, h, -1).transpose(1, 2)
        k, v = self.kv(images.reshape(B, M * P, D)).chunk(2, -1)
        k = k.reshape(B, M * P, h, -1).transpose(1, 2)
        v = v.reshape(B, M * P, h, -1).transpose(1, 2)
        s = q @ k.transpose(-1, -2) / (D // h) ** 0.5
        s = s + self._additive(text_pos, image_count, M, P, s.dtype)
        y = s.softmax(-1) @ v
        y = self.o(y.transpose(1, 2).reshape(B, T, D))
        return text + self.gate.tanh() * y * (text_pos > 0)[..., None]


class InterleavedBlock(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.x = GatedImageAttention(dim, heads)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.ff_gate = nn.Parameter(torch.tensor([0.5]))

    def forward(self, text, images, text_pos, image_count):
        text = self.x(text, images, text_pos, image_count)
        return text + self.ff_gate.tanh() * self.ff(text)


def positions_from_tokens(ids, image_token):
    """(B, T) token ids -> number of image tokens up to and including each position"""
    return (ids == image_token).long().cumsum(1)
