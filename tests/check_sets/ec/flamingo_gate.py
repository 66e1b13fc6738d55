"""Gated cross-attention to images, Flamingo style.

Text with several images interleaved: each text token looks only at the image that
most recently precedes it.  Tokens before the first image look at nothing and get
a zero update.  tanh(gate) starts at 0, so a fresh block is the identity.

    text    (B, T, D)
    media   (B, M, n, Dv)    n visual latents for each of M images
    is_img  (B, T) bool      True at the <image> placeholder tokens (at most M of them);
                             the placeholder itself already looks at its image
"""
import torch
from torch import einsum, nn


class GatedMediaAttention(nn.Module):
    def __init__(self, D, Dv, heads=8, dim_head=64):
        super().__init__()
        inner = heads * dim_head
        self.heads, self.scale = heads, dim_head ** -0.5
        self.norm = nn.LayerNorm(D)
        self.to_q = nn.Linear(D, inner, bias=False)
        self.to_kv = nn.Linear(Dv, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, D, bias=False)
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, text, media, is_img):
        B, T, _ = text.shape
        M, n = media.shape[1:3]
        q = self.to_q(self.norm(text)) * self.scale
        k, v = self.to_kv(media.flatten(1, 2)).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))

        sim = einsum("bhid,bhjd->bhij", q, k)
        # how many images have been seen up to and including token i: 0, 1, ..., M
        text_time = is_img.cumsum(dim=-1)
        media_time = torch.arange(1, M + 1, device=text.device).repeat_interleave(n)
        mine = text_time[:, None, :, None] == media_time
        sim = sim.masked_fill(~mine, torch.finfo(sim.dtype).min)
        attn = sim.softmax(dim=-1)

        # no image yet: the softmax above is uniform over masked keys, blank it
        blank = (text_time == 0)[:, None, :, None]
        attn = attn.masked_fill(blank, 0.0)

        out = einsum("bhij,bhjd->bhid", attn, v).transpose(1, 2).flatten(2)
        return text + self.to_out(out) * self.gate.tanh()
