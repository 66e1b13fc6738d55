"""Language model with segment-level recurrence, after Dai et al. (2019).

    A_ij = (q_i + u)^T k_j + (q_i + v)^T W_r R_{i-j}

R_n is the sinusoidal encoding of the distance n >= 0. Layout is (T, B, D).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PositionalEmbedding(nn.Module):
    def __init__(self, demb):
        super().__init__()
        self.register_buffer("inv_freq", 1 / (10000 ** (torch.arange(0.0, demb, 2.0) / demb)))

    def forward(self, pos_seq):
        s = torch.outer(pos_seq, self.inv_freq)
        return torch.cat([s.sin(), s.cos()], dim=-1)


class RelMultiHeadAttn(nn.Module):
    def __init__(self, n_head, d_model, dropout=0.0):
        super().__init__()
        self.n_head, self.d_head = n_head, d_model // n_head
        self.qkv_net = nn.Linear(d_model, 3 * d_model, bias=False)
        self.r_net = nn.Linear(d_model, d_model, bias=False)
        self.o_net = nn.Linear(d_model, d_model, bias=False)
        self.r_w_bias = nn.Parameter(torch.zeros(n_head, self.d_head))
        self.r_r_bias = nn.Parameter(torch.zeros(n_head, self.d_head))
        self.dropatt = nn.Dropout(dropout)
        self.scale = self.d_head ** -0.5
        self.pos_emb = PositionalEmbedding(d_model)

    @staticmethod
    def _rel_shift(x):
        """(q, k, b, h): row i is moved to the left by q - 1 - i places"""
        qlen, klen = x.shape[:2]
        zero = x.new_zeros(qlen, 1, *x.shape[2:])
        x = torch.cat([zero, x], dim=1).view(klen + 1, qlen, *x.shape[2:])
        return x[1:].reshape(qlen, klen, *x.shape[2:])

    def forward(self, w, mems=None):
        """w (T, B, D); mems (M, B, D) hidden states of the segments before, or None"""
        qlen, bsz, D = w.shape
        cat = w if mems is None else torch.cat([mems, w], 0)
        klen = cat.size(0)
        q, k, v = self.qkv_net(cat).chunk(3, dim=-1)
        q = q[-qlen:].reshape(qlen, bsz, self.n_head, self.d_head)
        k = k.reshape(klen, bsz, self.n_head, self.d_head)
        v = v.reshape(klen, bsz, self.n_head, self.d_head)

        pos_seq = torch.arange(klen, device=w.device, dtype=w.dtype)
        r = self.r_net(self.pos_emb(pos_seq)).view(klen, self.n_head, self.d_head)

        AC = torch.einsum("ibnd,jbnd->ijbn", q + self.r_w_bias, k)
        BD = self._rel_shift(torch.einsum("ibnd,jnd->ijbn", q + self.r_r_bias, r))
        score = (AC + BD) * self.scale

        future = torch.ones(qlen, klen, dtype=torch.bool, device=w.device).triu(1 + klen - qlen)
        score = score.masked_fill(future[:, :, None, None], float("-inf"))
        prob = self.dropatt(F.softmax(score, dim=1))
        vec = torch.einsum("ijbn,jbnd->ibnd", prob, v)
        return self.o_net(vec.reshape(qlen, bsz, D))


class Layer(nn.Module):
    def __init__(self, n_head, d_model, d_inner, dropout):
        super().__init__()
        self.attn = RelMultiHeadAttn(n_head, d_model, dropout)
        self.ff = nn.Sequential(nn.Linear(d_model, d_inner), nn.ReLU(), nn.Dropout(dropout),
                                nn.Linear(d_inner, d_model))
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mems=None):
        x = self.n1(x + self.drop(self.attn(x, mems)))
        return self.n2(x + self.drop(self.ff(x)))


class MemLM(nn.Module):
    def __init__(self, vocab, d_model=64, n_head=4, d_inner=128, n_layer=2, mem_len=16,
                 dropout=0.1):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model)
        self.layers = nn.ModuleList(
            Layer(n_head, d_model, d_inner, dropout) for _ in range(n_layer))
        self.out = nn.Linear(d_model, vocab)
        self.mem_len = mem_len

    def forward(self, ids, mems=None):
        """ids (T, B) -> logits (T, B, V), memory for the next segment"""
        x = self.emb(ids)
        mems = mems or [None] * len(self.layers)
        new = []
        for layer, m in zip(self.layers, mems):
            keep = x if m is None else torch.cat([m, x], 0)
            new.append(keep[-self.mem_len:].detach())
            x = layer(x, m)
        return self.out(x), new
