"""Card-transaction encoder for the fraud desk.

The last N transactions of a card are mixed by multi-head self-attention and
the newest one (index 0) is scored.  Cards with a short history are padded at
the end; padded transactions must not be attended to.
"""
import torch
from torch import nn


class TransactionMixer(nn.Module):
    def __init__(self, dim: int = 20, n_heads: int = 4):
        super().__init__()
        self.n_heads = n_heads
        self.scale = (dim // n_heads) ** -0.5
        self.in_proj = nn.Linear(dim, dim * 3, bias=False)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor, is_pad: torch.Tensor) -> torch.Tensor:
        B, N, D = x.shape
        q, k, v = self.in_proj(x).reshape(B, N, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        att = torch.matmul(q * self.scale, k.mT)
        if is_pad.any():
            att.masked_fill(is_pad.view(B, 1, 1, N), float("-inf"))
        att = att.softmax(dim=-1)
        y = torch.matmul(att, v)
        return self.out_proj(y.permute(0, 2, 1, 3).reshape(B, N, D))


class FraudScorer(nn.Module):
    def __init__(self, n_merchants: int = 100, dim: int = 20, n_heads: int = 4, n_layers: int = 2):
        super().__init__()
        self.merchant = nn.Embedding(n_merchants, dim)
        self.amount = nn.Linear(2, dim)
        self.mixers = nn.ModuleList(TransactionMixer(dim, n_heads) for _ in range(n_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(n_layers))
        self.logit = nn.Linear(dim, 1)

    def forward(self, merchants: torch.Tensor, amounts: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """merchants [B, N], amounts [B, N, 2] (log amount, hours ago), lengths [B]"""
        pos = torch.arange(merchants.shape[1], device=merchants.device)
        is_pad = pos.unsqueeze(0) >= lengths.unsqueeze(1)
        x = self.merchant(merchants) + self.amount(amounts)
        for norm, mixer in zip(self.norms, self.mixers):
            x = x + mixer(norm(x), is_pad)
        return self.logit(x[:, 0]).squeeze(-1)
