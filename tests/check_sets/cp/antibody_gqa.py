"""Bidirectional grouped-query attention for antibody sequences.

The block is weight compatible with the Llama family: consecutive query heads
form a group and share one key/value head (query heads 0..g-1 -> kv head 0,
g..2g-1 -> kv head 1, ...), with g = n_q_heads / n_kv_heads.
Shape convention: B batch, L residues, H heads, D head dim.
"""
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def expand_kv(t: Tensor, n_rep: int) -> Tensor:
    """[B, Hkv, L, D] -> [B, Hkv * n_rep, L, D]"""
    if n_rep == 1:
        return t
    return t.repeat(1, n_rep, 1, 1)


class AntibodyAttention(nn.Module):
    def __init__(self, d_model: int = 64, n_q_heads: int = 8, n_kv_heads: int = 4):
        super().__init__()
        if n_q_heads % n_kv_heads != 0:
            raise ValueError("n_q_heads must be a multiple of n_kv_heads")
        self.n_q_heads = n_q_heads
        self.n_kv_heads = n_kv_heads
        self.d = d_model // n_q_heads
        self.q_proj = nn.Linear(d_model, n_q_heads * self.d, bias=False)
        self.k_proj = nn.Linear(d_model, n_kv_heads * self.d, bias=False)
        self.v_proj = nn.Linear(d_model, n_kv_heads * self.d, bias=False)
        self.o_proj = nn.Linear(n_q_heads * self.d, d_model, bias=False)

    def forward(self, residues: Tensor, pad: Optional[Tensor] = None) -> Tensor:
        """
        residues: [B, L, d_model]
        pad: [B, L] bool, True at padding (ignored as keys)
        """
        B, L, _ = residues.shape
        q = self.q_proj(residues).view(B, L, self.n_q_heads, self.d).transpose(1, 2)
        k = self.k_proj(residues).view(B, L, self.n_kv_heads, self.d).transpose(1, 2)
        v = self.v_proj(residues).view(B, L, self.n_kv_heads, self.d).transpose(1, 2)

        n_rep = self.n_q_heads // self.n_kv_heads
        k, v = expand_kv(k, n_rep), expand_kv(v, n_rep)

        scores = (q @ k.transpose(2, 3)) * self.d ** -0.5
        if pad is not None:
            scores = scores.masked_fill(pad[:, None, None, :], torch.finfo(scores.dtype).min)
        probs = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        if pad is not None:
            probs = probs.masked_fill(pad[:, None, None, :], 0.0)

        out = (probs @ v).transpose(1, 2).reshape(B, L, -1)
        return self.o_proj(out)
