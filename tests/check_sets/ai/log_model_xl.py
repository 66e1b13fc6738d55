"""Language model over server logs with segment memory (Transformer-XL, Dai et al. 2019).

Score of query i and key j (i, j absolute positions in memory ++ segment):

    (q_i + u) . k_j  +  (q_i + w) . W_r R[i - j]

R[x] is the sinusoid of distance x; distances run from klen - 1 down to 0.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DistanceEncoding(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.register_buffer("inv", 1.0 / (10000 ** (torch.arange(0.0, d, 2.0) / d)), persistent=False)

    def forward(self, klen):
        dist = torch.arange(klen - 1, -1, -1.0, device=self.inv.device)
        ang = torch.outer(dist, self.inv)
        return torch.cat([ang.sin(), ang.cos()], dim=-1)


class MemoryAttention(nn.Module):
    def __init__(self, d_model, n_head, dropout=0.0):
        super().__init__()
        self.n_head, self.d_head = n_head, d_model // n_head
        self.q_net = nn.Linear(d_model, d_model, bias=False)
        self.kv_net = nn.Linear(d_model, 2 * d_model, bias=False)
        self.r_net = nn.Linear(d_model, d_model, bias=False)
        self.o_net = nn.Linear(d_model, d_model, bias=False)
        self.u = nn.Parameter(torch.randn(n_head, self.d_head) * 0.02)
        self.w = nn.Parameter(torch.randn(n_head, self.d_head) * 0.02)
        self.drop = nn.Dropout(dropout)

    @staticmethod
    def rel_shift(x):
        """[B, H, Q, K]: column c holds distance K - 1 - c; afterwards column j holds distance i - j."""
        b, h, q, k = x.shape
        x = torch.cat([x, x.new_zeros(b, h, q, 1)], dim=-1)
        return x.view(b, h, k + 1, q)[:, :, 1:].reshape(b, h, q, k)

    def forward(self, x, r, mem=None):
        """x [B, Q, D]; r [K, D] distance encodings; mem [B, M, D], K = M + Q"""
        bsz, qlen, _ = x.shape
        src = x if mem is None else torch.cat([mem, x], dim=1)
        klen = src.size(1)
        q = self.q_net(x).view(bsz, qlen, self.n_head, self.d_head)
        k, v = (t.view(bsz, klen, self.n_head, self.d_head) for t in self.kv_net(src).chunk(2, dim=-1))
        r = self.r_net(r).view(klen, self.n_head, self.d_head)

        ac = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        bd = self.rel_shift(torch.einsum("bihd,jhd->bhij", q + self.w, r))
        score = (ac + bd) / self.d_head ** 0.5
        future = torch.ones(qlen, klen, dtype=torch.bool, device=x.device).triu(1 + klen - qlen)
        score = score.masked_fill(future, float("-inf"))
        prob = self.drop(F.softmax(score, dim=-1))
        y = torch.einsum("bhij,bjhd->bihd", prob, v).reshape(bsz, qlen, -1)
        return self.o_net(y)


class XLLayer(nn.Module):
    def __init__(self, d_model, n_head, d_inner, dropout):
        super().__init__()
        self.attn = MemoryAttention(d_model, n_head, dropout)
        self.ff = nn.Sequential(nn.Linear(d_model, d_inner), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_inner, d_model))
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, r, mem):
        x = self.n1(x + self.attn(x, r, mem))
        return self.n2(x + self.ff(x))


class LogModel(nn.Module):
    """Surprise of a log line = mean negative log-likelihood of its tokens."""

    def __init__(self, vocab=256, d_model=32, n_head=4, d_inner=64, n_layer=2, mem_len=16, dropout=0.1):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model)
        self.dist = DistanceEncoding(d_model)
        self.layers = nn.ModuleList(XLLayer(d_model, n_head, d_inner, dropout) for _ in range(n_layer))
        self.out = nn.Linear(d_model, vocab)
        self.mem_len = mem_len

    def forward(self, ids, mems=None):
        x = self.emb(ids)
        mlen = 0 if mems is None else mems[0].size(1)
        r = self.dist(mlen + ids.size(1))
        new = []
        for i, layer in enumerate(self.layers):
            mem = None if mems is None else mems[i]
            new.append((x if mem is None else torch.cat([mem, x], dim=1))[:, -self.mem_len:].detach())
            x = layer(x, r, mem)
        return self.out(x), new

    @torch.no_grad()
    def surprise(self, lines):
        mems, scores = None, []
        for ids in lines:
            logits, mems = self(ids, mems)
            nll = F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")
            scores.append(nll.mean(dim=1))
        return torch.stack(scores, dim=1)
