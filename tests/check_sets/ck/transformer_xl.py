"""Transformer-XL (Dai et al. 2019): relative partial multi-head attention with segment memory."""
import torch
import torch.nn as nn


class PositionalEmbedding(nn.Module):
    def __init__(self, demb):
        super().__init__()
        self.register_buffer("inv_freq", 1 / (10000 ** (torch.arange(0.0, demb, 2.0) / demb)))

    def forward(self, pos_seq):
        s = torch.outer(pos_seq, self.inv_freq)
        return torch.cat([s.sin(), s.cos()], dim=-1)


class RelPartialAttention(nn.Module):
    """
    w    (B, qlen, d_model)  current segment
    mems (B, mlen, d_model)  hidden states of the previous segment, or None
    Token i sees the whole memory and the tokens 0..i of its segment. The score of query i and key j
    uses the sinusoid of their distance i - j (counted over memory and segment):
        (q + u) . k_j + (q + v) . R_{i-j}
    """

    def __init__(self, n_head=4, d_model=32):
        super().__init__()
        self.n_head = n_head
        self.d_head = d_model // n_head
        self.q_net = nn.Linear(d_model, d_model, bias=False)
        self.kv_net = nn.Linear(d_model, 2 * d_model, bias=False)
        self.r_net = nn.Linear(d_model, d_model, bias=False)
        self.o_net = nn.Linear(d_model, d_model, bias=False)
        self.pos_emb = PositionalEmbedding(d_model)
        self.u = nn.Parameter(torch.randn(n_head, self.d_head) * 0.1)
        self.v = nn.Parameter(torch.randn(n_head, self.d_head) * 0.1)

    @staticmethod
    def _rel_shift(x):
        b, h, q, k = x.shape
        x = torch.cat([x.new_zeros(b, h, q, 1), x], dim=3)
        return x.view(b, h, k + 1, q)[:, :, 1:].reshape(b, h, q, k)

    def forward(self, w, mems=None):
        B, qlen, C = w.shape
        cat = w if mems is None else torch.cat([mems, w], dim=1)
        klen = cat.size(1)
        q = self.q_net(w).view(B, qlen, self.n_head, self.d_head)
        k, v = self.kv_net(cat).view(B, klen, 2, self.n_head, self.d_head).unbind(2)

        pos_seq = torch.arange(klen, device=w.device, dtype=w.dtype)
        r = self.r_net(self.pos_emb(pos_seq)).view(klen, self.n_head, self.d_head)

        ac = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        bd = self._rel_shift(torch.einsum("bihd,jhd->bhij", q + self.v, r))
        score = (ac + bd) / self.d_head ** 0.5
        future = torch.ones(qlen, klen, dtype=torch.bool, device=w.device).triu(1 + klen - qlen)
        prob = score.masked_fill(future, float("-inf")).softmax(dim=-1)
        out = torch.einsum("bhij,bjhd->bihd", prob, v).reshape(B, qlen, C)
        return self.o_net(out)
