import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from typing import Optional


class MaskedCrossAttentionLayer(nn.Module):
    """One decoder layer of a Mask2Former head: masked cross-attention, then self-attention, then FFN (post-norm).

    queries:    (B, Q, C)
    feats:      (B, C, H, W)
    mask_pred:  (B, Q, h, w) logits of the previous layer
    """

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 256):
        super().__init__()
        self.nhead = nhead
        self.cross = nn.MultiheadAttention(d_model, nhead, batch_first=True)
        self.selfa = nn.MultiheadAttention(d_model, nhead, batch_first=True)
        self.lin1 = nn.Linear(d_model, dim_feedforward)
        self.lin2 = nn.Linear(dim_feedforward, d_model)
        self.n1, self.n2, self.n3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    @torch.no_grad()
    def _blocked(self, mask_pred: Tensor, size) -> Tensor:
        m = F.interpolate(mask_pred, size=size, mode="bilinear", align_corners=False)
        blocked = m.sigmoid().flatten(2) < 0.5                     # (B, Q, HW), True = background, not looked at
        blocked = blocked & ~blocked.all(-1, keepdim=True)         # an empty mask looks everywhere
        return blocked.unsqueeze(1).repeat(1, self.nhead, 1, 1).flatten(0, 1)

    def forward(self, queries: Tensor, feats: Tensor, mask_pred: Tensor, query_pos: Optional[Tensor] = None) -> Tensor:
        mem = feats.flatten(2).transpose(1, 2)
        qp = torch.zeros_like(queries) if query_pos is None else query_pos
        blocked = self._blocked(mask_pred, feats.shape[-2:])
        upd = self.cross(queries + qp, mem, mem, attn_mask=blocked, need_weights=False)[0]
        x = self.n1(queries + upd)
        upd = self.selfa(x + qp, x + qp, x, need_weights=False)[0]
        x = self.n2(x + upd)
        return self.n3(x + self.lin2(F.relu(self.lin1(x))))
