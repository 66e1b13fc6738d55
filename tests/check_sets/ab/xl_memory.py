# Transformer-XL layer for symbolic event streams; sequence first everywhere.
import torch
import torch.nn as nn
import torch.nn.functional as F


class PositionalEmbedding(nn.Module):
    def __init__(self, demb):
        super().__init__()
        inv_freq = 1 / (10000 ** (torch.arange(0.0, demb, 2.0) / demb))
        self.register_buffer('inv_freq', inv_freq)

    def forward(self, pos_seq):
        s = torch.outer(pos_seq, self.inv_freq)
        return torch.cat([s.sin(), s.cos()], dim=-1)


class RelMultiHeadAttn(nn.Module):
    def __init__(self, n_head, d_model, d_head, dropatt=0.0):
        super().__init__()
        self.n_head, self.d_head = n_head, d_head
        self.q_net = nn.Linear(d_model, n_head * d_head, bias=False)
        self.kv_net = nn.Linear(d_model, 2 * n_head * d_head, bias=False)
        self.r_net = nn.Linear(d_model, n_head * d_head, bias=False)
        self.o_net = nn.Linear(n_head * d_head, d_model, bias=False)
        self.r_w_bias = nn.Parameter(torch.randn(n_head, d_head) * 0.1)
        self.r_r_bias = nn.Parameter(torch.randn(n_head, d_head) * 0.1)
        self.pos_emb = PositionalEmbedding(d_model)
        self.dropatt = nn.Dropout(dropatt)
        self.layer_norm = nn.LayerNorm(d_model)
        self.scale = 1 / (d_head ** 0.5)

    def _rel_shift(self, x):
        # x: qlen x klen x bsz x n_head
        zero_pad = torch.zeros((x.size(0), 1) + x.shape[2:], device=x.device, dtype=x.dtype)
        x_padded = torch.cat([zero_pad, x], dim=1)
        x_padded = x_padded.view(x.size(1) + 1, x.size(0), *x.shape[2:])
        return x_padded[1:].view_as(x)

    def forward(self, w, mems=None):
        """w: qlen x bsz x d_model; mems: mlen x bsz x d_model from the previous segment"""
        qlen, bsz = w.size(0), w.size(1)
        cat = w if mems is None else torch.cat([mems, w], 0)
        klen = cat.size(0)
        r = self.r_net(self.pos_emb(torch.arange(klen - 1, -1, -1.0, device=w.device)))
        r = r.view(klen, self.n_head, self.d_head)

        q = self.q_net(w).view(qlen, bsz, self.n_head, self.d_head)
        k, v = self.kv_net(cat).chunk(2, dim=-1)
        k = k.view(klen, bsz, self.n_head, self.d_head)
        v = v.view(klen, bsz, self.n_head, self.d_head)

        AC = torch.einsum('ibnd,jbnd->ijbn', q + self.r_w_bias, k)
        BD = self._rel_shift(torch.einsum('ibnd,jnd->ijbn', q + self.r_r_bias, r))
        score = (AC + BD) * self.scale

        dec_mask = torch.triu(torch.ones(qlen, klen, device=w.device), diagonal=1 + klen - qlen).bool()
        score = score.masked_fill(dec_mask[:, :, None, None], -float('inf'))
        prob = self.dropatt(F.softmax(score, dim=1))
        vec = torch.einsum('ijbn,jbnd->ibnd', prob, v).reshape(qlen, bsz, -1)
        return self.layer_norm(w + self.o_net(vec))
