"""Relative multi-head attention of Transformer-XL, with segment memory.

    A_ij = (q_i + u) . k_j + (q_i + v) . (W_r R_{i-j}),   scaled by 1/sqrt(d_head)

R_{d} is the sinusoid embedding of the distance d = i - j >= 0 (i, j counted over memory + segment);
a token sees the memory and the segment up to itself.
"""
import torch
import torch.nn as nn


class PositionalEmbedding(nn.Module):
    def __init__(self, demb):
        super().__init__()
        self.register_buffer("inv_freq", 1 / (10000 ** (torch.arange(0.0, demb, 2.0) / demb)))

    def forward(self, pos_seq):
        ang = torch.outer(pos_seq, self.inv_freq)
        return torch.cat([ang.sin(), ang.cos()], dim=-1)


class RelMultiHeadAttn(nn.Module):
    def __init__(self, d_model=32, n_head=4, dropout=0.1):
        super().__init__()
        self.n_head, self.d_head = n_head, d_model // n_head
        self.q_net = nn.Linear(d_model, d_model, bias=False)
        self.kv_net = nn.Linear(d_model, 2 * d_model, bias=False)
        self.r_net = nn.Linear(d_model, d_model, bias=False)
        self.o_net = nn.Linear(d_model, d_model, bias=False)
        self.r_w_bias = nn.Parameter(torch.randn(n_head, self.d_head) * 0.1)
        self.r_r_bias = nn.Parameter(torch.randn(n_head, self.d_head) * 0.1)
        self.pos_emb = PositionalEmbedding(d_model)
        self.dropatt = nn.Dropout(dropout)

    def _rel_shift(self, x):
        # (B, H, q, k): row i is moved left by q - 1 - i
        B, H, q, k = x.shape
        pad = x.new_zeros(B, H, q, 1)
        x = torch.cat([pad, x], dim=3).view(B, H, k + 1, q)
        return x[:, :, 1:].reshape(B, H, q, k)

    def forward(self, w, mems=None):
        """w: (B, qlen, d_model) current segment, mems: (B, mlen, d_model) or None"""
        B, qlen, C = w.shape
        cat = w if mems is None else torch.cat([mems, w], dim=1)
        klen = cat.size(1)
        pos_seq = torch.arange(klen, device=w.device, dtype=w.dtype)
        r = self.r_net(self.pos_emb(pos_seq)).view(klen, self.n_head, self.d_head)

        q = self.q_net(w).view(B, qlen, self.n_head, self.d_head)
        k, v = self.kv_net(cat).chunk(2, dim=-1)
        k = k.view(B, klen, self.n_head, self.d_head)
        v = v.view(B, klen, self.n_head, self.d_head)

        AC = torch.einsum("bind,bjnd->bnij", q + self.r_w_bias, k)
        BD = self._rel_shift(torch.einsum("bind,jnd->bnij", q + self.r_r_bias, r))
        score = (AC + BD) / self.d_head ** 0.5

        hidden = torch.ones(qlen, klen, dtype=torch.bool, device=w.device).triu(1 + klen - qlen)
        score = score.masked_fill(hidden, float("-inf"))
        prob = self.dropatt(score.softmax(dim=-1))
        vec = torch.einsum("bnij,bjnd->bind", prob, v)
        return self.o_net(vec.reshape(B, qlen, C))
