"""Customs declarations: which line of the invoice decided the tariff code?

The audit office stores the attention of every decision, also of those made while
the model is still being trained, as a distribution over the invoice lines
(each row sums to one).
"""
from dataclasses import dataclass, field
from typing import List

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class AuditTrail:
    rows: List[torch.Tensor] = field(default_factory=list)

    def store(self, share: torch.Tensor) -> None:
        self.rows.append(share.detach().cpu())

    def strongest_line(self) -> List[int]:
        return [int(r.mean(0).argmax()) for batch in self.rows for r in batch]


class DeclarationReader(nn.Module):
    """Goods description (queries) reads invoice lines (keys).

    Args of forward:
        goods:    (B, G, dim)
        invoice:  (B, I, dim)
        blank:    (B, I) bool, True for empty invoice lines
    Returns:
        text (B, G, dim), share (B, G, I): mean over the heads of the attention
        distribution over invoice lines.
    """

    def __init__(self, dim: int = 16, heads: int = 2, p_drop: float = 0.2):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.o = nn.Linear(dim, dim)
        self.drop = nn.Dropout(p_drop)

    def forward(self, goods, invoice, blank=None):
        B, G, D = goods.shape
        I = invoice.shape[1]
        q = self.q(goods).view(B, G, self.heads, -1).transpose(1, 2)
        k, v = self.kv(invoice).view(B, I, 2, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        score = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        if blank is not None:
            score = score.masked_fill(blank[:, None, None], torch.finfo(score.dtype).min)
        share = F.softmax(score, dim=-1)
        share = self.drop(share)
        text = (share @ v).transpose(1, 2).reshape(B, G, D)
        return self.o(text), share.mean(dim=1)


class TariffModel(nn.Module):
    def __init__(self, codes: int = 97, dim: int = 16):
        super().__init__()
        self.reader = DeclarationReader(dim)
        self.norm = nn.LayerNorm(dim)
        self.code = nn.Linear(dim, codes)

    def forward(self, goods, invoice, blank=None, trail: AuditTrail = None):
        text, share = self.reader(goods, invoice, blank)
        if trail is not None:
            trail.store(share)
        return self.code(self.norm(goods + text).mean(1))


if __name__ == "__main__":
    t = AuditTrail()
    TariffModel()(torch.randn(2, 3, 16), torch.randn(2, 5, 16), trail=t)
    print(t.strongest_line())
