"""IP-Adapter (Ye et al. 2023) for a toy diffusion U-Net: decoupled cross-attention.

    out = Attn(Q, K_text, V_text) + ip_scale * Attn(Q, K_image, V_image)

The text branch is frozen; to_k_ip / to_v_ip are trained.  attn_drop is a regulariser for the
training of the adapter only, sampling is deterministic given the noise.
"""
import torch
from torch import nn
import torch.nn.functional as F


class DecoupledCrossAttention(nn.Module):
    def __init__(self, channels, ctx_dim, heads=4, ip_scale=1.0, attn_drop=0.1):
        super().__init__()
        self.heads, self.ip_scale, self.attn_drop = heads, ip_scale, attn_drop
        self.to_q = nn.Linear(channels, channels, bias=False)
        self.to_k = nn.Linear(ctx_dim, channels, bias=False)
        self.to_v = nn.Linear(ctx_dim, channels, bias=False)
        self.to_k_ip = nn.Linear(ctx_dim, channels, bias=False)
        self.to_v_ip = nn.Linear(ctx_dim, channels, bias=False)
        self.to_out = nn.Linear(channels, channels)
        for lin in (self.to_q, self.to_k, self.to_v):
            lin.requires_grad_(False)

    def _split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _attend(self, q, k, v):
        return F.scaled_dot_product_attention(self._split(q), self._split(k), self._split(v),
                                              dropout_p=self.attn_drop).transpose(1, 2).flatten(2)

    def forward(self, hidden, text, image_tokens):
        """hidden (B, HW, C), text (B, T, ctx), image_tokens (B, M, ctx)"""
        q = self.to_q(hidden)
        out = self._attend(q, self.to_k(text), self.to_v(text))
        out = out + self.ip_scale * self._attend(q, self.to_k_ip(image_tokens), self.to_v_ip(image_tokens))
        return self.to_out(out)


class ImageProj(nn.Module):
    """CLIP image embedding -> a few context tokens"""

    def __init__(self, clip_dim, ctx_dim, tokens=4):
        super().__init__()
        self.tokens, self.lin, self.norm = tokens, nn.Linear(clip_dim, ctx_dim * tokens), nn.LayerNorm(ctx_dim)

    def forward(self, e):
        return self.norm(self.lin(e).unflatten(-1, (self.tokens, -1)))


class UNetBlock(nn.Module):
    def __init__(self, ch, ctx, t_dim=16):
        super().__init__()
        self.gn1, self.c1 = nn.GroupNorm(4, ch), nn.Conv2d(ch, ch, 3, padding=1)
        self.temb, self.ln = nn.Linear(t_dim, ch), nn.LayerNorm(ch)
        self.cross = DecoupledCrossAttention(ch, ctx)

    def forward(self, x, t, text, img):
        x = x + self.c1(F.silu(self.gn1(x))) + self.temb(t)[:, :, None, None]
        B, C, H, W = x.shape
        tok = x.flatten(2).transpose(1, 2)
        tok = tok + self.cross(self.ln(tok), text, img)
        return tok.transpose(1, 2).reshape(B, C, H, W)


@torch.no_grad()
def sample_step(block, x, t, text, clip_emb, proj):
    block.eval()
    eps = block(x, t, text, proj(clip_emb))
    return x - 0.1 * eps


if __name__ == "__main__":
    blk, pr = UNetBlock(16, 24), ImageProj(20, 24)
    print(sample_step(blk, torch.randn(2, 16, 8, 8), torch.randn(2, 16), torch.randn(2, 7, 24), torch.randn(2, 20), pr).shape)
