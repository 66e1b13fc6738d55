"""Pre-norm Transformer encoder block used by the sentence encoder."""
import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, d_model, n_heads, p_drop=0.1):
        super().__init__()
        if d_model % n_heads:
            raise ValueError("d_model must be divisible by n_heads")
        self.h = n_heads
        self.dk = d_model // n_heads
        self.to_q = nn.Linear(d_model, d_model)
        self.to_k = nn.Linear(d_model, d_model)
        self.to_v = nn.Linear(d_model, d_model)
        self.to_out = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(p_drop)

    def forward(self, x, pad_mask=None):
        b, n, _ = x.shape
        q = self.to_q(x).view(b, n, self.h, self.dk)
        k = self.to_k(x).view(b, n, self.h, self.dk)
        v = self.to_v(x).view(b, n, self.h, self.dk)

        logits = torch.einsum("bihd,bjhd->bhij", q, k) * self.dk ** -0.5
        if pad_mask is not None:
            blocked = ~pad_mask[:, None, None, :]
            logits = logits.masked_fill(blocked, torch.finfo(logits.dtype).min)
        probs = logits.softmax(dim=-1)
        ctx = torch.einsum("bhij,bjhd->bihd", self.drop(probs), v)
        return self.to_out(ctx.reshape(b, n, self.h * self.dk))


class EncoderBlock(nn.Module):
    """x -> x + attn(norm(x)) -> x + mlp(norm(x)).

    Args of forward:
        x: (batch, seq, d_model)
        pad_mask: optional bool (batch, seq), True where there is a real token,
            False on padding. Padding is never attended to.
    Returns (batch, seq, d_model).
    """

    def __init__(self, d_model=64, n_heads=4, d_ff=128, p_drop=0.1):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.attn = SelfAttention(d_model, n_heads, p_drop)
        self.norm2 = nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(
            nn.Linear(d_model, d_ff),
            nn.GELU(),
            nn.Dropout(p_drop),
            nn.Linear(d_ff, d_model),
        )
        self.drop = nn.Dropout(p_drop)

    def forward(self, x, pad_mask=None):
        x = x + self.drop(self.attn(self.norm1(x), pad_mask))
        x = x + self.drop(self.mlp(self.norm2(x)))
        return x


if __name__ == "__main__":
    block = EncoderBlock()
    tokens = torch.randn(2, 7, 64)
    mask = torch.arange(7)[None, :] < torch.tensor([7, 4])[:, None]
    print(block(tokens, mask).shape)
