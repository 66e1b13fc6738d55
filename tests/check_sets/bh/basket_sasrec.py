"""SASRec-like next-item model for the web shop, trained nightly.

Schedule: train epoch -> evaluate on yesterday's sessions -> train epoch -> ...
on the same model object.
"""
import torch
from torch import nn
from torch.nn import functional as F


class SessionAttention(nn.Module):
    """Causal multi-head attention over the items of a session.

    x (B, L, D), valid (B, L) bool, True = item, False = left padding.
    Attention dropout `p` acts in training mode and never in evaluation.
    """

    def __init__(self, dim, heads, p=0.2):
        super().__init__()
        self.heads = heads
        self.p = p
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)

    def train(self, mode=True):
        super().train(mode)
        if not mode:
            self.p = 0.0     # serving and offline metrics must be deterministic
        return self

    def forward(self, x, valid=None):
        b, l, d = x.shape
        q, k, v = (w(x).view(b, l, self.heads, -1).transpose(1, 2)
                   for w in (self.wq, self.wk, self.wv))
        allow = torch.ones(l, l, dtype=torch.bool, device=x.device).tril()
        if valid is not None:
            # the diagonal stays open so that padded rows have something to see
            eye = torch.eye(l, dtype=torch.bool, device=x.device)
            allow = (allow & valid[:, None, None, :]) | eye
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allow, dropout_p=self.p)
        return self.wo(y.transpose(1, 2).reshape(b, l, d))


class SASRec(nn.Module):
    def __init__(self, n_items, dim=64, heads=2, layers=2, max_len=50, p=0.2):
        super().__init__()
        self.item = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.pos = nn.Embedding(max_len, dim)
        self.attn = nn.ModuleList(SessionAttention(dim, heads, p) for _ in range(layers))
        self.n1 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.n2 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(p),
                                              nn.Linear(dim, dim)) for _ in range(layers))

    def forward(self, items):
        valid = items > 0
        pos = torch.arange(items.size(1), device=items.device)
        x = (self.item(items) + self.pos(pos)) * valid[..., None]
        for i, a in enumerate(self.attn):
            x = x + a(self.n1[i](x), valid)
            x = (x + self.ff[i](self.n2[i](x))) * valid[..., None]
        return x

    def scores(self, items):
        return self.forward(items)[:, -1] @ self.item.weight[1:].T


def train_epoch(model, batches, opt):
    model.train()
    for seq in batches:
        h = model(seq[:, :-1])
        logits = h @ model.item.weight.T
        loss = F.cross_entropy(logits.flatten(0, 1), seq[:, 1:].flatten(), ignore_index=0)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


@torch.no_grad()
def hit_rate(model, batches, k=10):
    model.eval()
    hits = n = 0
    for seq in batches:
        top = model.scores(seq[:, :-1]).topk(k).indices + 1
        hits += (top == seq[:, -1:]).any(1).sum().item()
        n += len(seq)
    return hits / n


if __name__ == "__main__":
    data = [torch.randint(1, 100, (16, 12)) for _ in range(3)]
    m = SASRec(100)
    o = torch.optim.Adam(m.parameters(), 1e-3)
    for epoch in range(2):
        print(epoch, train_epoch(m, data, o), hit_rate(m, data))
