"""Q-Former-like bridge between a frozen image encoder and a language model."""
from collections import namedtuple
from typing import Optional

import torch
from torch import nn
import torch.nn.functional as F

BridgeOutput = namedtuple("BridgeOutput", "queries text")


class MHA(nn.Module):
    def __init__(self, d, d_ctx, h, p):
        super().__init__()
        self.h, self.p = h, p
        self.to_q = nn.Linear(d, d)
        self.to_kv = nn.Linear(d_ctx, 2 * d)
        self.to_out = nn.Linear(d, d)

    def forward(self, x, ctx, keep=None):
        """keep: bool, broadcastable to (B, 1, Lq, Lk), True = may be attended."""
        def heads(t):
            return t.view(t.size(0), t.size(1), self.h, -1).permute(0, 2, 1, 3)

        k, v = self.to_kv(ctx).chunk(2, dim=-1)
        y = F.scaled_dot_product_attention(
            heads(self.to_q(x)), heads(k), heads(v), attn_mask=keep, dropout_p=self.p * self.training
        )
        return self.to_out(y.permute(0, 2, 1, 3).flatten(2))


class Layer(nn.Module):
    def __init__(self, d, d_img, h, p, cross):
        super().__init__()
        self.self_attn, self.ln1 = MHA(d, d, h, p), nn.LayerNorm(d)
        self.cross = MHA(d, d_img, h, p) if cross else None
        self.ln2 = nn.LayerNorm(d) if cross else None
        self.ff_q = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.ff_t = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.ln_q, self.ln_t = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, nq, img, keep, img_keep):
        x = self.ln1(x + self.self_attn(x, x, keep))
        q, t = x[:, :nq], x[:, nq:]
        if self.cross is not None:
            q = self.ln2(q + self.cross(q, img, img_keep))
        q = self.ln_q(q + self.ff_q(q))
        t = self.ln_t(t + self.ff_t(t))
        return torch.cat((q, t), 1)


class Bridge(nn.Module):
    """mode 'itm': queries and text see each other; 'itc': each sees only its own kind;
    'itg': queries see queries, text sees the queries and the text up to itself.

    text_mask (B, Lt) and img_mask (B, Li): 1 = real, 0 = padding (on the right).
    """

    def __init__(self, vocab, d=32, d_img=48, nq=4, h=4, depth=2, p=0.1, max_len=64):
        super().__init__()
        self.nq = nq
        self.query = nn.Parameter(torch.randn(1, nq, d) * 0.02)
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(max_len, d)
        self.ln_in, self.ln_img = nn.LayerNorm(d), nn.LayerNorm(d_img)
        self.layers = nn.ModuleList(Layer(d, d_img, h, p, cross=i % 2 == 0) for i in range(depth))

    def _keep(self, mode, lt, text_mask, device):
        nq = self.nq
        n = nq + lt
        is_q = torch.arange(n, device=device) < nq
        if mode == "itm":
            k = torch.ones(n, n, dtype=torch.bool, device=device)
        elif mode == "itc":
            k = is_q[:, None] == is_q[None, :]
        elif mode == "itg":
            k = torch.ones(n, n, dtype=torch.bool, device=device).tril()
            k[:nq, :nq] = True
        else:
            raise ValueError(mode)
        col = torch.cat((text_mask.new_ones(text_mask.size(0), nq), text_mask), 1).bool()
        return k[None, None] & col[:, None, None, :]

    def forward(self, img, text_ids, text_mask=None, img_mask: Optional[torch.Tensor] = None, mode="itm"):
        B, lt = text_ids.shape
        if text_mask is None:
            text_mask = torch.ones_like(text_ids)
        t = self.tok(text_ids) + self.pos.weight[:lt]
        x = self.ln_in(torch.cat((self.query.expand(B, -1, -1), t), 1))
        keep = self._keep(mode, lt, text_mask, img.device)
        ik = None if img_mask is None else img_mask[:, None, None, :].bool()
        img = self.ln_img(img)
        for lyr in self.layers:
            x = lyr(x, self.nq, img, keep, ik)
        return BridgeOutput(x[:, : self.nq], x[:, self.nq:])
