"""TinyTales -- a very small story teller.

    model = TaleTeller(TaleConfig(vocab=512))
    ids = model.continue_story(prompt_ids, n_new=40)
"""
from dataclasses import dataclass
from typing import List, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

Past = Tuple[torch.Tensor, torch.Tensor]


@dataclass
class TaleConfig:
    vocab: int = 512
    width: int = 64
    heads: int = 4
    depth: int = 2
    context: int = 128
    pdrop: float = 0.1


class Listener(nn.Module):
    """Causal self-attention; `past` holds keys and values of everything read so far."""

    def __init__(self, cfg: TaleConfig):
        super().__init__()
        assert cfg.width % cfg.heads == 0
        self.nh = cfg.heads
        self.hd = cfg.width // cfg.heads
        self.in_proj = nn.Linear(cfg.width, 3 * cfg.width, bias=False)
        self.out_proj = nn.Linear(cfg.width, cfg.width, bias=False)
        self.pdrop = cfg.pdrop
        self.res_drop = nn.Dropout(cfg.pdrop)

    def forward(self, x, past: Optional[Past] = None) -> Tuple[torch.Tensor, Past]:
        b, t, w = x.shape
        q, k, v = self.in_proj(x).view(b, t, 3, self.nh, self.hd).permute(2, 0, 3, 1, 4)
        if past is not None:
            k = torch.cat((past[0], k), dim=-2)
            v = torch.cat((past[1], v), dim=-2)
        total = k.size(-2)
        rows = torch.arange(total - t, total, device=x.device)[:, None]
        cols = torch.arange(total, device=x.device)[None, :]
        y = F.scaled_dot_product_attention(
            q, k, v,
            attn_mask=cols <= rows,
            dropout_p=self.pdrop if self.training else 0.0,
        )
        y = y.transpose(1, 2).contiguous().view(b, t, w)
        return self.res_drop(self.out_proj(y)), (k, v)


class Chapter(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1 = nn.LayerNorm(cfg.width)
        self.listen = Listener(cfg)
        self.n2 = nn.LayerNorm(cfg.width)
        self.think = nn.Sequential(
            nn.Linear(cfg.width, 4 * cfg.width), nn.GELU(),
            nn.Linear(4 * cfg.width, cfg.width), nn.Dropout(cfg.pdrop),
        )

    def forward(self, x, past=None):
        heard, present = self.listen(self.n1(x), past)
        x = x + heard
        return x + self.think(self.n2(x)), present


class TaleTeller(nn.Module):
    def __init__(self, cfg: TaleConfig):
        super().__init__()
        self.cfg = cfg
        self.wte = nn.Embedding(cfg.vocab, cfg.width)
        self.wpe = nn.Embedding(cfg.context, cfg.width)
        self.drop = nn.Dropout(cfg.pdrop)
        self.chapters = nn.ModuleList(Chapter(cfg) for _ in range(cfg.depth))
        self.norm = nn.LayerNorm(cfg.width)
        self.head = nn.Linear(cfg.width, cfg.vocab, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids, pasts: Optional[List[Past]] = None):
        start = 0 if pasts is None else pasts[0][0].size(-2)
        pos = torch.arange(start, start + ids.size(1), device=ids.device)
        x = self.drop(self.wte(ids) + self.wpe(pos))
        presents = []
        for i, ch in enumerate(self.chapters):
            x, pr = ch(x, None if pasts is None else pasts[i])
            presents.append(pr)
        return self.head(self.norm(x)), presents

    @torch.no_grad()
    def continue_story(self, ids, n_new: int):
        self.eval()
        logits, pasts = self(ids)
        for i in range(n_new):
            nxt = logits[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat((ids, nxt), dim=1)
            if i + 1 < n_new:
                logits, pasts = self(nxt, pasts)
        return ids
