"""Reading precedents while drafting.

The draft (queries) attends to one concatenated list of retrieved precedent
paragraphs (keys / values). The two sides have different widths and lengths.
"""
from typing import Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


def length_mask(lengths: Tensor, max_len: int) -> Tensor:
    """[B] -> [B, max_len], True where the position is inside the sequence."""
    steps = torch.arange(max_len, device=lengths.device)
    return steps.unsqueeze(0) < lengths.unsqueeze(1)


class PrecedentReader(nn.Module):
    """Multi-head cross attention from a draft to precedents.

    Args:
        draft_dim: width of the draft states (also the output width)
        law_dim: width of the precedent states
        heads: number of heads; each has `head_dim` channels
    """

    def __init__(self, draft_dim: int = 24, law_dim: int = 40, heads: int = 3, head_dim: int = 16,
                 p_drop: float = 0.0):
        super().__init__()
        inner = heads * head_dim
        self.heads, self.head_dim = heads, head_dim
        self.norm_draft = nn.LayerNorm(draft_dim)
        self.norm_law = nn.LayerNorm(law_dim)
        self.w_q = nn.Linear(draft_dim, inner, bias=False)
        self.w_kv = nn.Linear(law_dim, 2 * inner, bias=False)  # first half keys, second half values
        self.w_o = nn.Linear(inner, draft_dim)
        self.drop = nn.Dropout(p_drop)

    def forward(
        self,
        draft: Tensor,
        precedents: Tensor,
        precedent_lengths: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Tensor]:
        """
        draft: [B, Lq, draft_dim]; precedents: [B, Lk, law_dim];
        precedent_lengths: [B] number of real paragraphs per case (at least one).

        Returns the updated draft and the attention map [B, heads, Lq, Lk] (a
        probability distribution over paragraphs, before dropout).
        """
        B, Lq, _ = draft.shape
        Lk = precedents.size(1)

        q = self.w_q(self.norm_draft(draft)).view(B, Lq, self.heads, self.head_dim)
        k, v = self.w_kv(self.norm_law(precedents)).chunk(2, dim=-1)
        k = k.view(B, Lk, self.heads, self.head_dim)
        v = v.view(B, Lk, self.heads, self.head_dim)

        logits = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.head_dim ** -0.5
        if precedent_lengths is not None:
            inside = length_mask(precedent_lengths, Lk)
            logits = logits.masked_fill(~inside[:, None, None, :], float("-inf"))
        attn = F.softmax(logits, dim=-1)

        mixed = torch.einsum("bhqk,bkhd->bqhd", self.drop(attn), v)
        return draft + self.w_o(mixed.flatten(2)), attn
