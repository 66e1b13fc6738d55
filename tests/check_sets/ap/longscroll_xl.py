"""Longscroll: Transformer-XL for book-length text (segment recurrence, relative positions).

Tensors are time first: [len, batch, dim].
Score of query i and key j (Dai et al. 2019):
    (q_i + u) . k_j  +  (q_i + v) . W_r R_{i-j}
with R_d the sinusoid of the distance d; keys are [memory ; segment].
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DistanceCode(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("inv_freq", 1 / (10000 ** (torch.arange(0.0, dim, 2.0) / dim)))

    def forward(self, pos_seq):
        s = torch.outer(pos_seq, self.inv_freq)
        return torch.cat([s.sin(), s.cos()], dim=-1)


class RelMemoryAttention(nn.Module):
    def __init__(self, n_head, d_model, d_head, dropout=0.0, dropatt=0.0):
        super().__init__()
        self.n_head, self.d_head = n_head, d_head
        self.qkv_net = nn.Linear(d_model, 3 * n_head * d_head, bias=False)
        self.r_net = nn.Linear(d_model, n_head * d_head, bias=False)
        self.o_net = nn.Linear(n_head * d_head, d_model, bias=False)
        self.u = nn.Parameter(torch.randn(n_head, d_head) * 0.1)
        self.v = nn.Parameter(torch.randn(n_head, d_head) * 0.1)
        self.code = DistanceCode(d_model)
        self.drop, self.dropatt = nn.Dropout(dropout), nn.Dropout(dropatt)
        self.norm = nn.LayerNorm(d_model)

    @staticmethod
    def rel_shift(x):
        """x: [qlen, klen, ...]"""
        pad = x.new_zeros((x.size(0), 1) + x.shape[2:])
        padded = torch.cat([pad, x], dim=1)
        padded = padded.view((x.size(1) + 1, x.size(0)) + x.shape[2:])
        return padded[1:].view_as(x)

    def forward(self, w, mems=None):
        qlen, bsz, _ = w.shape
        cat = w if mems is None else torch.cat([mems, w], 0)
        klen = cat.size(0)
        q, k, v = self.qkv_net(cat).chunk(3, dim=-1)
        q = q[-qlen:].reshape(qlen, bsz, self.n_head, self.d_head)
        k = k.reshape(klen, bsz, self.n_head, self.d_head)
        v = v.reshape(klen, bsz, self.n_head, self.d_head)

        pos_seq = torch.arange(0, klen, 1.0, device=w.device, dtype=self.code.inv_freq.dtype)
        r = self.r_net(self.code(pos_seq)).view(klen, self.n_head, self.d_head)

        ac = torch.einsum("ibnd,jbnd->ijbn", q + self.u, k)
        bd = self.rel_shift(torch.einsum("ibnd,jnd->ijbn", q + self.v, r))
        score = (ac + bd) * self.d_head ** -0.5
        later = torch.ones(qlen, klen, dtype=torch.bool, device=w.device).triu(1 + klen - qlen)
        score = score.masked_fill(later[:, :, None, None], float("-inf"))
        prob = self.dropatt(F.softmax(score, dim=1))
        vec = torch.einsum("ijbn,jbnd->ibnd", prob, v).reshape(qlen, bsz, -1)
        return self.norm(w + self.drop(self.o_net(vec)))


class ScrollLM(nn.Module):
    def __init__(self, vocab, d_model=64, n_head=4, depth=3, mem_len=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model)
        self.layers = nn.ModuleList(RelMemoryAttention(n_head, d_model, d_model // n_head) for _ in range(depth))
        self.ffs = nn.ModuleList(
            nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.ReLU(), nn.Linear(2 * d_model, d_model)) for _ in range(depth)
        )
        self.mem_len = mem_len
        self.out = nn.Linear(d_model, vocab)

    def forward(self, ids, mems=None):
        """ids [len, batch] -> logits, new memories (one per layer)"""
        x, new = self.emb(ids), []
        for i, (att, ff) in enumerate(zip(self.layers, self.ffs)):
            old = None if mems is None else mems[i]
            keep = x if old is None else torch.cat([old, x], 0)
            new.append(keep[-self.mem_len:].detach())
            x = att(x, old)
            x = x + ff(x)
        return self.out(x), new
