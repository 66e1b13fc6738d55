from __future__ import annotations

import torch
from torch import Tensor, nn


class GatedAttentionMIL(nn.Module):
    """Gated attention-based MIL pooling (Ilse et al. 2018) for padded bags of patch features.

    Args:
        feats: ``(bags, instances, in_dim)``
        valid: ``(bags, instances)`` boolean, False for the padding instances
    Returns:
        slide logits ``(bags, n_classes)`` and attention over the instances of each bag, a distribution
    """

    def __init__(self, in_dim: int = 32, hidden: int = 16, attn_dim: int = 8, n_classes: int = 2, dropout: float = 0.25):
        super().__init__()
        self.project = nn.Sequential(nn.Linear(in_dim, hidden), nn.ReLU(), nn.Dropout(dropout))
        self.attention_v = nn.Sequential(nn.Linear(hidden, attn_dim), nn.Tanh())
        self.attention_u = nn.Sequential(nn.Linear(hidden, attn_dim), nn.Sigmoid())
        self.attention_w = nn.Linear(attn_dim, 1)
        self.classifier = nn.Linear(hidden, n_classes)

    def attention(self, h: Tensor, valid: Tensor | None) -> Tensor:
        logits = self.attention_w(self.attention_v(h) * self.attention_u(h)).squeeze(-1)
        alpha = torch.softmax(logits, dim=1)
        if valid is not None:
            alpha = alpha * valid.to(alpha.dtype)
        return alpha

    def forward(self, feats: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
        h = self.project(feats)
        alpha = self.attention(h, valid)
        bag = torch.einsum("bn,bnd->bd", alpha, h)
        return self.classifier(bag), alpha
