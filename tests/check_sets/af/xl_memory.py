import torch
import torch.nn as nn
import torch.nn.functional as F


class SinusoidR(nn.Module):
    def __init__(self, demb):
        super().__init__()
        self.register_buffer('inv_freq', 1 / (10000 ** (torch.arange(0.0, demb, 2.0) / demb)))

    def forward(self, pos_seq):
        ang = torch.outer(pos_seq, self.inv_freq)
        return torch.cat([ang.sin(), ang.cos()], dim=-1)


class RelAttn(nn.Module):
    '''Relative multi-head attention with segment memory.

    Everything is time-major: w (qlen, bsz, d), mems (mlen, bsz, d).
        A_ij = (q_i + u)^T k_j + (q_i + v)^T W_r R_{i-j}
    '''

    def __init__(self, n_head, d_model, d_head, dropatt=0.):
        super().__init__()
        self.n_head, self.d_head = n_head, d_head
        self.qkv_net = nn.Linear(d_model, 3 * n_head * d_head, bias=False)
        self.r_net = nn.Linear(d_model, n_head * d_head, bias=False)
        self.o_net = nn.Linear(n_head * d_head, d_model, bias=False)
        self.r_w_bias = nn.Parameter(torch.randn(n_head, d_head) * .02)
        self.r_r_bias = nn.Parameter(torch.randn(n_head, d_head) * .02)
        self.layer_norm = nn.LayerNorm(d_model)
        self.dropatt = nn.Dropout(dropatt)
        self.pos = SinusoidR(d_model)
        self.scale = 1 / (d_head ** 0.5)

    @staticmethod
    def _rel_shift(x):
        # x (qlen, klen, bsz, n_head); column c of row i holds distance klen-1-c  ->  aligned with key j
        zero_pad = x.new_zeros((x.size(0), 1, *x.size()[2:]))
        x_padded = torch.cat([zero_pad, x], dim=1)
        x_padded = x_padded.view(x.size(1) + 1, x.size(0), *x.size()[2:])
        return x_padded[1:].view_as(x)

    def forward(self, w, mems=None):
        qlen, bsz, _ = w.shape
        cat = w if mems is None else torch.cat([mems, w], 0)
        klen = cat.size(0)
        r = self.pos(torch.arange(klen - 1, -1, -1.0, device=w.device, dtype=w.dtype))

        w_head_q, w_head_k, w_head_v = torch.chunk(self.qkv_net(cat), 3, dim=-1)
        w_head_q = w_head_q[-qlen:].reshape(qlen, bsz, self.n_head, self.d_head)
        w_head_k = w_head_k.reshape(klen, bsz, self.n_head, self.d_head)
        w_head_v = w_head_v.reshape(klen, bsz, self.n_head, self.d_head)
        r_head_k = self.r_net(r).view(klen, self.n_head, self.d_head)

        AC = torch.einsum('ibnd,jbnd->ijbn', w_head_q + self.r_w_bias, w_head_k)
        BD = torch.einsum('ibnd,jnd->ijbn', w_head_q + self.r_r_bias, r_head_k)
        score = (AC + self._rel_shift(BD)) * self.scale

        hide = torch.ones(qlen, klen, dtype=torch.bool, device=w.device).triu(1 + klen - qlen)
        score = score.float().masked_fill(hide[:, :, None, None], -float('inf')).type_as(score)
        prob = self.dropatt(F.softmax(score, dim=1))
        vec = torch.einsum('ijbn,jbnd->ibnd', prob, w_head_v).reshape(qlen, bsz, -1)
        return self.layer_norm(w + self.o_net(vec))


def update_mems(mems, hids, mem_len):
    with torch.no_grad():
        return [torch.cat([m, h], 0)[-mem_len:].detach() for m, h in zip(mems, hids)]
