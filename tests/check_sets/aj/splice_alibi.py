"""Splice site model on 2 kb pre-mRNA windows, bidirectional ALiBi instead of position embeddings.

The penalty is -m_h * |i - j| with the slopes of Press et al. (2022): for n heads the geometric
sequence that starts at 2^(-8/n) and has that same value as ratio.
"""
import torch
from torch import nn
import torch.nn.functional as F


def head_slopes(n_heads: int) -> torch.Tensor:
    ratio = 2.0 ** (-8.0 / n_heads)
    return torch.tensor([ratio ** h for h in range(n_heads)])


def symmetric_alibi(slopes: torch.Tensor, length: int) -> torch.Tensor:
    """[H] -> additive bias [1, H, L, L]"""
    pos = torch.arange(length, device=slopes.device)
    dist = (pos[None, :] - pos[:, None]).abs().to(slopes.dtype)
    return -slopes[None, :, None, None] * dist


class AlibiSelfAttention(nn.Module):
    def __init__(self, dim, n_heads=8, p_drop=0.1):
        super().__init__()
        if n_heads & (n_heads - 1):
            raise ValueError("n_heads must be a power of two")
        self.n_heads = n_heads
        self.dh = dim // n_heads
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.p_drop = p_drop
        self.register_buffer("slopes", head_slopes(n_heads), persistent=False)

    def forward(self, x, is_n=None):
        """x [B, L, dim]; is_n bool [B, L], True for N bases outside of the transcript, not attended"""
        B, L, C = x.shape
        q, k, v = self.in_proj(x).view(B, L, 3, self.n_heads, self.dh).permute(2, 0, 3, 1, 4)
        bias = symmetric_alibi(self.slopes, L).to(q.dtype)
        if is_n is not None:
            bias = bias.masked_fill(is_n[:, None, None, :], torch.finfo(q.dtype).min)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(B, -1, -1, -1),
                                           dropout_p=self.p_drop if self.training else 0.0)
        return self.out_proj(y.transpose(1, 2).reshape(B, L, C))


class GEGLU(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.wi = nn.Linear(dim, 2 * hidden, bias=False)
        self.wo = nn.Linear(hidden, dim)

    def forward(self, x):
        a, g = self.wi(x).chunk(2, dim=-1)
        return self.wo(F.gelu(a) * g)


class SpliceBlock(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.attn = AlibiSelfAttention(dim, n_heads)
        self.mlp = GEGLU(dim, 2 * dim)
        self.norm_a, self.norm_m = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, is_n=None):
        x = x + self.attn(self.norm_a(x), is_n)
        return x + self.mlp(self.norm_m(x))


class SpliceNet(nn.Module):
    """per-base: none / donor / acceptor"""

    def __init__(self, dim=64, depth=4, n_heads=8):
        super().__init__()
        self.stem = nn.Conv1d(5, dim, 11, padding=5)
        self.blocks = nn.ModuleList([SpliceBlock(dim, n_heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.cls = nn.Linear(dim, 3)

    def forward(self, bases, is_n=None):
        x = F.one_hot(bases, 5).to(self.stem.weight.dtype).transpose(1, 2)
        x = self.stem(x).transpose(1, 2)
        for b in self.blocks:
            x = b(x, is_n)
        return self.cls(self.norm(x))


def topk_accuracy(logits, labels, cls):
    """as in SpliceAI: k = number of true sites"""
    score = logits[..., cls].flatten()
    true = labels.flatten() == cls
    k = int(true.sum())
    if k == 0:
        return float("nan")
    return true[score.topk(k).indices].float().mean().item()


if __name__ == "__main__":
    net = SpliceNet().eval()
    print(net(torch.randint(0, 5, (2, 300))).shape)
