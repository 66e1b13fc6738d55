"""SASRec on ML-1M (tf1 -> torch port of kang205/SASRec, with clean masks)

sequences are padded on the LEFT with item 0, newest item is the last column
"""
import random
import torch
import torch.nn as nn
import torch.nn.functional as F


def sample_batch(user_train, itemnum, bs, maxlen):
    seqs, poss, negs = [], [], []
    users = list(user_train)
    for _ in range(bs):
        items = user_train[random.choice(users)]
        seq, pos, neg = [0] * maxlen, [0] * maxlen, [0] * maxlen
        nxt, idx, ts = items[-1], maxlen - 1, set(items)
        for i in reversed(items[:-1]):
            seq[idx], pos[idx] = i, nxt
            t = random.randint(1, itemnum)
            while t in ts:
                t = random.randint(1, itemnum)
            neg[idx] = t
            nxt = i
            idx -= 1
            if idx == -1:
                break
        seqs.append(seq)
        poss.append(pos)
        negs.append(neg)
    return torch.tensor(seqs), torch.tensor(poss), torch.tensor(negs)


class SeqAttention(nn.Module):
    """
    queries are normed, keys/values are not (as in the tf code).
    blocked: bool [B, T, T], True where a query must not look
    """

    def __init__(self, hidden, num_heads, rate):
        super().__init__()
        self.num_heads = num_heads
        self.size = hidden // num_heads
        self.Q, self.K, self.V = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.drop = nn.Dropout(rate)

    def forward(self, queries, keys, blocked):
        Q, K, V = self.Q(queries), self.K(keys), self.V(keys)
        outs = []
        for h in range(self.num_heads):
            sl = slice(h * self.size, (h + 1) * self.size)
            logits = Q[..., sl].bmm(K[..., sl].transpose(1, 2))
            logits = logits / self.size ** 0.5
            logits = logits.masked_fill(blocked, -2.0 ** 32 + 1)
            att = self.drop(F.softmax(logits, dim=-1))
            outs.append(att.bmm(V[..., sl]))
        return torch.cat(outs, dim=2)


class SASRec(nn.Module):
    def __init__(self, itemnum, args):
        super().__init__()
        d = args["hidden_units"]
        self.item = nn.Embedding(itemnum + 1, d, padding_idx=0)
        self.pos = nn.Embedding(args["maxlen"], d)
        self.drop = nn.Dropout(args["dropout_rate"])
        n = args["num_blocks"]
        self.n1 = nn.ModuleList([nn.LayerNorm(d, eps=1e-8) for _ in range(n)])
        self.n2 = nn.ModuleList([nn.LayerNorm(d, eps=1e-8) for _ in range(n)])
        self.att = nn.ModuleList([SeqAttention(d, args["num_heads"], args["dropout_rate"]) for _ in range(n)])
        self.ff = nn.ModuleList([nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d)) for _ in range(n)])
        self.last = nn.LayerNorm(d, eps=1e-8)

    def encode(self, seq):
        T = seq.size(1)
        pad = seq == 0
        future = torch.ones(T, T, dtype=torch.bool, device=seq.device).triu(1)
        blocked = future[None] | pad[:, None, :]
        x = self.item(seq) * self.item.embedding_dim ** 0.5
        x = self.drop(x + self.pos.weight[:T])
        x = x.masked_fill(pad[..., None], 0)
        for n1, att, n2, ff in zip(self.n1, self.att, self.n2, self.ff):
            q = n1(x)
            x = q + att(q, x, blocked)
            x = n2(x)
            x = x + self.drop(ff(x))
            x = x.masked_fill(pad[..., None], 0)
        return self.last(x)

    def forward(self, seq, pos, neg):
        h = self.encode(seq)
        p, n = (h * self.item(pos)).sum(-1), (h * self.item(neg)).sum(-1)
        ok = pos != 0
        return -(F.logsigmoid(p[ok]) + F.logsigmoid(-n[ok])).mean()
