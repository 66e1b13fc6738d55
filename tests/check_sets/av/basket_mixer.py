"""Next-basket recommendation: products in a basket attend to one another."""
import torch
import torch.nn as nn


class BasketAttention(nn.Module):
    """
    items: (batch, n, dim)
    real:  (batch, n) bool; True for products, False for the filler at the end, which
           must get no weight
    returns (batch, n, dim)
    """

    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.dim_head = dim // n_heads
        self.lin_q = nn.Linear(dim, dim)
        self.lin_k = nn.Linear(dim, dim)
        self.lin_v = nn.Linear(dim, dim)
        self.lin_out = nn.Linear(dim, dim)

    def heads(self, t):
        return t.view(t.size(0), t.size(1), self.n_heads, self.dim_head).permute(0, 2, 1, 3)

    def forward(self, items, real=None):
        q = self.heads(self.lin_q(items))
        k = self.heads(self.lin_k(items))
        v = self.heads(self.lin_v(items))
        affinity = torch.matmul(q, k.transpose(2, 3)) / self.dim_head ** 0.5
        if real is not None:
            affinity = affinity + real[:, None, None, :].float()
        share = torch.softmax(affinity, dim=-1)
        mixed = torch.matmul(share, v)
        mixed = mixed.reshape(items.size(0), items.size(1), self.n_heads * self.dim_head)
        return self.lin_out(mixed)


class BasketEncoder(nn.Module):
    def __init__(self, n_products, dim=32, n_heads=4):
        super().__init__()
        self.emb = nn.Embedding(n_products + 1, dim, padding_idx=0)
        self.att = BasketAttention(dim, n_heads)
        self.norm = nn.LayerNorm(dim)

    def forward(self, basket):
        real = basket > 0
        e = self.emb(basket)
        x = self.norm(e + self.att(e, real))
        x = x * real.unsqueeze(-1)
        return x.sum(1) / real.sum(1, keepdim=True).clamp(min=1)


class NextBasket(nn.Module):
    def __init__(self, n_products, dim=32):
        super().__init__()
        self.enc = BasketEncoder(n_products, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)

    def forward(self, history):
        b, t, n = history.shape
        z = self.enc(history.reshape(b * t, n)).view(b, t, -1)
        _, h = self.gru(z)
        return h[-1] @ self.enc.emb.weight.T


def recall_at(scores, target, k=20):
    top = scores.topk(k, dim=-1).indices
    hit = (top.unsqueeze(-1) == target.unsqueeze(1)).any(1) & (target > 0)
    return hit.sum(-1) / (target > 0).sum(-1).clamp(min=1)
