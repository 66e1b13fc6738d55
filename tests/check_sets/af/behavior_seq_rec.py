import torch
import torch.nn as nn
import torch.nn.functional as F


# self-attentive sequential recommendation. item id 0 is padding (sequences are left padded).

class PointWiseFFN(nn.Module):
    def __init__(self, d, p):
        super().__init__()
        self.conv1 = nn.Conv1d(d, d, 1)
        self.conv2 = nn.Conv1d(d, d, 1)
        self.drop1, self.drop2 = nn.Dropout(p), nn.Dropout(p)

    def forward(self, x):
        y = self.drop2(self.conv2(self.drop1(F.relu(self.conv1(x.transpose(1, 2))))))
        return y.transpose(1, 2)


class SeqAttention(nn.Module):
    """Multi-head attention over the click history (causal)."""

    def __init__(self, d, heads, p=0.2):
        super().__init__()
        self.heads, self.dk, self.p = heads, d // heads, p
        self.Q = nn.Linear(d, d)
        self.K = nn.Linear(d, d)
        self.V = nn.Linear(d, d)
        self.O = nn.Linear(d, d)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, self.dk).transpose(1, 2)

    def forward(self, query, history, pad):
        """query, history (B, L, d); pad (B, L) True where the item is padding."""
        B, L, d = query.size()
        q = self.split(self.Q(query))
        k = self.split(self.K(history))
        v = self.split(self.V(history))

        scores = torch.matmul(q, k.transpose(2, 3)) / self.dk ** 0.5
        future = torch.triu(torch.ones(L, L, dtype=torch.bool, device=query.device), diagonal=1)
        scores = scores.masked_fill(future | pad[:, None, None, :], -1e9)
        A = F.softmax(scores, dim=-1)
        A = F.dropout(A, p=self.p)

        out = torch.matmul(A, v)
        out = out.contiguous().view(B, L, d)
        return self.O(out)


class SASRecNet(nn.Module):
    def __init__(self, n_items, maxlen=50, d=64, blocks=2, heads=2, p=0.2):
        super().__init__()
        self.item = nn.Embedding(n_items + 1, d, padding_idx=0)
        self.pos = nn.Embedding(maxlen, d)
        self.emb_drop = nn.Dropout(p)
        self.ln1 = nn.ModuleList([nn.LayerNorm(d, eps=1e-8) for _ in range(blocks)])
        self.ln2 = nn.ModuleList([nn.LayerNorm(d, eps=1e-8) for _ in range(blocks)])
        self.att = nn.ModuleList([SeqAttention(d, heads, p) for _ in range(blocks)])
        self.ffn = nn.ModuleList([PointWiseFFN(d, p) for _ in range(blocks)])
        self.last = nn.LayerNorm(d, eps=1e-8)

    def log2feats(self, seqs):
        x = self.item(seqs) * self.item.embedding_dim ** 0.5
        x = self.emb_drop(x + self.pos(torch.arange(seqs.size(1), device=seqs.device)))
        pad = seqs.eq(0)
        x = x * (~pad).unsqueeze(-1)
        for ln1, att, ln2, ffn in zip(self.ln1, self.att, self.ln2, self.ffn):
            q = ln1(x)
            x = q + att(q, x, pad)
            x = ln2(x)
            x = x + ffn(x)
            x = x * (~pad).unsqueeze(-1)
        return self.last(x)

    def forward(self, seqs, pos_seqs, neg_seqs):
        f = self.log2feats(seqs)
        return (f * self.item(pos_seqs)).sum(-1), (f * self.item(neg_seqs)).sum(-1)

    @torch.no_grad()
    def predict(self, seqs, candidates):
        return torch.einsum('bd,bcd->bc', self.log2feats(seqs)[:, -1], self.item(candidates))
