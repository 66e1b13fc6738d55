import torch
import torch.nn as nn
import torch.nn.functional as F


class SASRec(nn.Module):
    """Self-attentive sequential recommendation.

    seq: (B, L) item ids, 0 = padding (on the left). Returns scores for the next item, (B, n_items + 1).
    """

    def __init__(self, n_items, args=None):
        super().__init__()
        a = {"hidden": 32, "maxlen": 20, "blocks": 2, "heads": 2, "dropout": 0.2}
        a.update(args or {})
        d = a["hidden"]
        self.heads, self.p = a["heads"], a["dropout"]
        self.item_emb = nn.Embedding(n_items + 1, d, padding_idx=0)
        self.pos_emb = nn.Embedding(a["maxlen"], d)
        mk = lambda f: nn.ModuleList(f() for _ in range(a["blocks"]))
        self.ln1, self.ln2 = mk(lambda: nn.LayerNorm(d)), mk(lambda: nn.LayerNorm(d))
        self.Q, self.K, self.V = (mk(lambda: nn.Linear(d, d)) for _ in range(3))
        self.ffn = mk(lambda: nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Dropout(self.p), nn.Linear(d, d)))
        self.last = nn.LayerNorm(d)

    def attend(self, q, kv, i, allowed):
        B, L, d = q.shape
        sp = lambda t: t.view(B, L, self.heads, -1).transpose(1, 2)
        q, k, v = sp(self.Q[i](q)), sp(self.K[i](kv)), sp(self.V[i](kv))
        s = q.matmul(k.transpose(2, 3)) / k.size(-1) ** 0.5
        s = s.masked_fill(~allowed, torch.finfo(s.dtype).min)
        w = F.dropout(F.softmax(s, dim=3), self.p, training=self.training)
        return w.matmul(v).transpose(1, 2).reshape(B, L, d)

    def forward(self, seq):
        real = seq != 0
        L = seq.size(1)
        x = self.item_emb(seq) * self.item_emb.embedding_dim ** 0.5
        x = x + self.pos_emb(torch.arange(L, device=seq.device))
        x = F.dropout(x, self.p, training=self.training) * real.unsqueeze(-1)
        causal = torch.ones(L, L, dtype=torch.bool, device=seq.device).tril()
        allowed = causal & real[:, None, None, :]
        for i in range(len(self.ffn)):
            q = self.ln1[i](x)
            x = q + self.attend(q, x, i, allowed)
            x = self.ln2[i](x)
            x = (x + self.ffn[i](x)) * real.unsqueeze(-1)
        return self.last(x[:, -1]) @ self.item_emb.weight.T
