"""Video tagging: frames exchange information, then one learned weight per frame pools them.

ClipTagger(dim, heads, tags).forward(frames, keep) -> (B, tags) logits
    frames  (B, T, dim)  frame features of B independent clips
    keep    (B, T) bool, True = usable frame, False = black frame; at least one True
Stage 1: every frame attends to all T frames of its own clip (black ones too, they are
         harmless there); residual and LayerNorm.
Stage 2: attention pooling, softmax of a linear score over the usable frames; black frames
         have weight zero in the clip vector.
"""
import torch
import torch.nn as nn


class ClipTagger(nn.Module):
    def __init__(self, dim, heads, tags):
        super().__init__()
        self.exchange = nn.MultiheadAttention(dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.score = nn.Linear(dim, 1)
        self.tags = nn.Linear(dim, tags)

    def forward(self, frames, keep):
        mixed, _ = self.exchange(frames, frames, frames, need_weights=False)
        h = self.norm(frames + mixed)
        logit = self.score(h).squeeze(-1)
        logit.masked_fill(~keep, float("-inf"))
        w = torch.softmax(logit, dim=1)
        clip = torch.einsum("bt,btc->bc", w, h)
        return self.tags(clip)
