"""Mixture-of-experts feed-forward with top-k routing."""
import torch
import torch.nn as nn


class ExpertVal(nn.Module):
    """x (B, T, dim) -> (B, T, dim). Each token goes to its `top` best experts; their outputs are
    weighted by a softmax over the chosen router scores."""

    def __init__(self, dim=16, hidden=32, n_experts=4, top=2):
        super().__init__()
        self.top = top
        self.router = nn.Linear(dim, n_experts, bias=False)
        self.w_in = nn.Parameter(torch.randn(n_experts, dim, hidden) * dim ** -0.5)
        self.w_out = nn.Parameter(torch.randn(n_experts, hidden, dim) * hidden ** -0.5)

    def forward(self, x):
        scores = self.router(x)  # (B, T, E)
        best, idx = scores.topk(self.top, dim=-1)
        kept = torch.full_like(scores, float("-inf")).scatter(-1, idx, best)
        weights = torch.softmax(kept, dim=-1)
        h = torch.einsum("btd,edh->bteh", x, self.w_in)
        y = torch.einsum("bteh,ehd->bted", nn.functional.silu(h), self.w_out)
        return torch.einsum("bte,bted->btd", weights, y)

    def load(self, x):
        """Share of the tokens that each expert receives, (E,)."""
        idx = self.router(x).topk(self.top, dim=-1).indices
        return torch.bincount(idx.flatten(), minlength=self.router.out_features) / idx.numel()


if __name__ == "__main__":
    layer = ExpertVal()
    print(layer.load(torch.randn(2, 10, 16)))
