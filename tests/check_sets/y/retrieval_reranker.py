"""Cross-attention reranker: query tokens look at the passages of the candidate list."""
from typing import Dict, Optional, Tuple

import torch
from torch import nn, Tensor
import torch.nn.functional as F

DEFAULTS: Dict[str, float] = {"width": 32, "n_heads": 4, "p_attn": 0.1, "p_resid": 0.1, "n_blocks": 2}


class CrossAttention(nn.Module):
    """
    tgt (B, Tq, width), mem (B, Tk, width)
    mem_mask (B, Tk) bool: True = take part
    """

    def __init__(self, width: int, n_heads: int, p_attn: float = 0.1, p_resid: float = 0.1):
        super().__init__()
        self.n_heads = n_heads
        self.p_attn = p_attn
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.o = nn.Linear(width, width)
        self.resid = nn.Dropout(p_resid)

    def _split(self, t: Tensor) -> Tensor:
        B, T, W = t.shape
        return t.reshape(B, T, self.n_heads, W // self.n_heads).permute(0, 2, 1, 3)

    def forward(self, tgt: Tensor, mem: Tensor, mem_mask: Optional[Tensor] = None) -> Tensor:
        q = self._split(self.q(tgt))
        k, v = (self._split(t) for t in self.kv(mem).chunk(2, dim=-1))
        attn_mask = None if mem_mask is None else mem_mask[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, dropout_p=self.p_attn)
        y = y.permute(0, 2, 1, 3).flatten(2)
        return self.resid(self.o(y))


class GLUFeedForward(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.w1, self.w2 = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.glu(self.w1(x), dim=-1))


class Stage(nn.Module):
    def __init__(self, width: int, n_heads: int, p_attn: float, p_resid: float):
        super().__init__()
        self.ln_q, self.ln_m, self.ln_f = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.xattn = CrossAttention(width, n_heads, p_attn, p_resid)
        self.ffn = GLUFeedForward(width)

    def forward(self, tgt, mem, mem_mask=None):
        tgt = tgt + self.xattn(self.ln_q(tgt), self.ln_m(mem), mem_mask)
        return tgt + self.ffn(self.ln_f(tgt))


class Reranker(nn.Module):
    def __init__(self, vocab: int = 90, cfg: Optional[dict] = None):
        super().__init__()
        c = {**DEFAULTS, **(cfg or {})}
        self.emb = nn.Embedding(vocab, c["width"], padding_idx=0)
        self.stages = nn.ModuleList([Stage(c["width"], c["n_heads"], c["p_attn"], c["p_resid"])
                                     for _ in range(c["n_blocks"])])
        self.score = nn.Linear(c["width"], 1)

    @staticmethod
    def masked_mean(x: Tensor, keep: Tensor) -> Tensor:
        w = keep.to(x.dtype).unsqueeze(-1)
        return (x * w).sum(1) / w.sum(1).clamp(min=1.)

    def forward(self, query_ids: Tensor, passage_ids: Tensor) -> Tuple[Tensor, Tensor]:
        """query_ids (B, Tq), passage_ids (B, P, Tk), 0 = padding -> scores (B, P), order (B, P)"""
        B, P, Tk = passage_ids.shape
        q = self.emb(query_ids).repeat_interleave(P, 0)
        qk = (query_ids != 0).repeat_interleave(P, 0)
        m = self.emb(passage_ids.view(B * P, Tk))
        mk = passage_ids.view(B * P, Tk) != 0
        for s in self.stages:
            q = s(q, m, mk)
        scores = self.score(self.masked_mean(q, qk)).view(B, P)
        return scores, scores.argsort(dim=-1, descending=True)
