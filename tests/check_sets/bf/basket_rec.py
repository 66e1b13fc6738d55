"""Next-basket recommendation; SASRec-like encoder. pip install torch>=2.0"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ItemAttention(nn.Module):
    """Causal self-attention on item sequences; item id 0 is left padding.

    Dropout on the attention weights while training, none at inference.
    """

    def __init__(self, dim, n_heads=2, dropout=0.2):
        super().__init__()
        self.n_heads = n_heads
        self.dropout = dropout
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, is_pad):
        b, n, d = x.shape
        split = lambda t: t.view(b, n, self.n_heads, -1).transpose(1, 2)
        k, v = self.kv(x).chunk(2, -1)
        causal = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        allowed = causal & ~is_pad[:, None, None, :]
        # padded queries would have no key at all; let them look at themselves
        allowed = allowed | torch.eye(n, dtype=torch.bool, device=x.device)
        y = F.scaled_dot_product_attention(split(self.q(x)), split(k), split(v), attn_mask=allowed,
                                           dropout_p=self.dropout)
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class SASRec(nn.Module):
    def __init__(self, n_items, dim=32, max_len=20, layers=2, dropout=0.2):
        super().__init__()
        self.items = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.pos = nn.Embedding(max_len, dim)
        self.drop = nn.Dropout(dropout)
        self.att = nn.ModuleList(ItemAttention(dim, dropout=dropout) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))

    def forward(self, seq):
        x = self.items(seq) + self.pos(torch.arange(seq.size(1), device=seq.device))
        x = self.drop(x)
        pad = seq == 0
        for a, n in zip(self.att, self.norm):
            x = x + a(n(x), pad)
        return x

    @torch.no_grad()
    def recommend(self, seq, k=5):
        self.eval()
        last = self(seq)[:, -1]
        return (last @ self.items.weight[1:].T).topk(k).indices + 1


if __name__ == "__main__":
    m = SASRec(50)
    print(m.recommend(torch.tensor([[0, 0, 4, 9, 7]])))
