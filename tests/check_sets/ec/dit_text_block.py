"""PixArt-like DiT block: adaLN-single self-attention, then cross-attention to the prompt.

    latents      (B, N, C)   patchified noisy latents
    prompt       (B, M, C)   projected T5 states
    prompt_mask  (B, M)      tokenizer attention mask, 1 = token of the prompt, 0 = padding
    mod          (B, 6, C)   modulation from the timestep: shift/scale/gate for attention
                             and for the MLP

Padding of the prompt must have no influence; every prompt has at least one token.
Returns the updated latents.
"""
import torch
import torch.nn as nn


def modulate(x, shift, scale):
    return x * (1 + scale) + shift


class PixBlock(nn.Module):
    def __init__(self, C, heads, mlp_ratio=4):
        super().__init__()
        self.norm1 = nn.LayerNorm(C, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(C, elementwise_affine=False, eps=1e-6)
        self.self_attn = nn.MultiheadAttention(C, heads, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(C, heads, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(C, mlp_ratio * C), nn.GELU(approximate="tanh"),
            nn.Linear(mlp_ratio * C, C))
        self.table = nn.Parameter(torch.randn(6, C) / C ** 0.5)

    def forward(self, latents, prompt, prompt_mask, mod):
        s_a, c_a, g_a, s_m, c_m, g_m = (self.table + mod).unsqueeze(2).unbind(1)

        h = modulate(self.norm1(latents), s_a, c_a)
        h, _ = self.self_attn(h, h, h, need_weights=False)
        x = latents + g_a * h

        h, _ = self.cross_attn(x, prompt, prompt,
                               key_padding_mask=prompt_mask.bool(),
                               need_weights=False)
        x = x + h

        h = modulate(self.norm2(x), s_m, c_m)
        return x + g_m * self.mlp(h)
