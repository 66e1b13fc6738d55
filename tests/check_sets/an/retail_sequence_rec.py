"""Session based recommender, trained with periodic evaluation every few hundred steps."""
import torch
import torch.nn as nn


class SessionAttention(nn.Module):
    """Causal multi-head attention over the clicks of a session. Dropout (training only)
    acts on the attention weights and on the output."""

    def __init__(self, d, heads, p=0.2):
        super().__init__()
        self.heads, self.d_head = heads, d // heads
        self.Q, self.K, self.V, self.O = (nn.Linear(d, d) for _ in range(4))
        self.attn_drop = nn.Dropout(p)
        self.out_drop = nn.Dropout(p)

    def forward(self, x, clicks):
        """x (B, L, d); clicks (B, L) item ids, 0 = filler on the right"""
        if not self.training:
            self.attn_drop.p = 0.0
            self.out_drop.p = 0.0
        B, L, d = x.shape
        q, k, v = [f(x).view(B, L, self.heads, self.d_head).transpose(1, 2) for f in (self.Q, self.K, self.V)]
        s = torch.matmul(q, k.transpose(2, 3)) * self.d_head ** -0.5
        later = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        drop = later[None, None] | (clicks == 0)[:, None, None, :]
        s = s.masked_fill(drop, -1e9)
        a = self.attn_drop(torch.softmax(s, -1))
        y = torch.matmul(a, v).transpose(1, 2).reshape(B, L, d)
        return self.out_drop(self.O(y))


class SessionRec(nn.Module):
    def __init__(self, n_items, d=32, heads=2, layers=2, max_len=50, p=0.2):
        super().__init__()
        self.items = nn.Embedding(n_items + 1, d, padding_idx=0)
        self.place = nn.Embedding(max_len, d)
        self.att = nn.ModuleList([SessionAttention(d, heads, p) for _ in range(layers)])
        self.ff = nn.ModuleList([nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d)) for _ in range(layers)])
        self.ln = nn.ModuleList([nn.LayerNorm(d) for _ in range(2 * layers + 1)])

    def forward(self, clicks):
        x = self.items(clicks) + self.place.weight[: clicks.size(1)]
        for i, (a, f) in enumerate(zip(self.att, self.ff)):
            x = x + a(self.ln[2 * i](x), clicks)
            x = x + f(self.ln[2 * i + 1](x))
        return self.ln[-1](x) @ self.items.weight.T


def fit(model, batches, valid, opt, every=200):
    best = float("-inf")
    for step, clicks in enumerate(batches):
        model.train()
        logits = model(clicks[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), clicks[:, 1:].flatten(), ignore_index=0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % every == 0:
            best = max(best, hit_rate(model, valid))
    return best


@torch.no_grad()
def hit_rate(model, valid, k=10):
    model.eval()
    hits = total = 0
    for clicks in valid:
        n = (clicks > 0).sum(1) - 1
        rows = torch.arange(len(clicks))
        top = model(clicks[:, :-1])[rows, n - 1].topk(k).indices
        hits += (top == clicks[rows, n][:, None]).any(1).sum().item()
        total += len(clicks)
    return hits / max(total, 1)
