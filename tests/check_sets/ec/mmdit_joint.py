"""Joint attention of an MM-DiT block (text and image streams, SD3 / Flux layout).

Each stream has its own modulation, QKV, QK-norm and output projection; the tokens of
both are concatenated (text first) for a single bidirectional attention, then split.

    img  (B, N, C)    latent patches
    txt  (B, M, C)    text-encoder states
    vec  (B, C)       timestep + pooled text embedding
    txt_mask (B, M)   bool, True = real text token (image tokens are always real;
                      so no query is ever left without a key)
Returns the attention-updated (img, txt).
"""
import torch
import torch.nn.functional as F
from torch import nn, Tensor


class Stream(nn.Module):
    def __init__(self, C: int, heads: int):
        super().__init__()
        self.heads, self.hd = heads, C // heads
        self.norm = nn.LayerNorm(C, elementwise_affine=False, eps=1e-6)
        self.mod = nn.Linear(C, 3 * C)
        self.qkv = nn.Linear(C, 3 * C)
        self.q_rms = nn.RMSNorm(self.hd, eps=1e-6)
        self.k_rms = nn.RMSNorm(self.hd, eps=1e-6)
        self.proj = nn.Linear(C, C)

    def pre(self, x: Tensor, vec: Tensor):
        shift, scale, gate = self.mod(F.silu(vec))[:, None].chunk(3, dim=-1)
        h = self.norm(x) * (1 + scale) + shift
        B, L, C = h.shape
        q, k, v = self.qkv(h).reshape(B, L, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        return self.q_rms(q), self.k_rms(k), v, gate

    def post(self, x: Tensor, y: Tensor, gate: Tensor) -> Tensor:
        return x + gate * self.proj(y)


class JointAttention(nn.Module):
    def __init__(self, C: int, heads: int):
        super().__init__()
        self.img, self.txt = Stream(C, heads), Stream(C, heads)

    def forward(self, img: Tensor, txt: Tensor, vec: Tensor, txt_mask: Tensor | None = None):
        iq, ik, iv, ig = self.img.pre(img, vec)
        tq, tk, tv, tg = self.txt.pre(txt, vec)
        q, k, v = (torch.cat(pair, dim=2) for pair in ((tq, iq), (tk, ik), (tv, iv)))
        mask = None
        if txt_mask is not None:
            mask = F.pad(txt_mask, (0, img.shape[1]), value=True)[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = y.transpose(1, 2).flatten(2)
        yt, yi = y.split([txt.shape[1], img.shape[1]], dim=1)
        return self.img.post(img, yi, ig), self.txt.post(txt, yt, tg)
