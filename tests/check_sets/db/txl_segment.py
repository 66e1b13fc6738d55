import torch
from torch import nn


class RelSegment(nn.Module):
    # Transformer-XL layer core, time first as in the original: h is T x B x D,
    # mems (optional) is M x B x D and precedes h.
    def __init__(self, d_model=24, n_head=4):
        super().__init__()
        self.n_head, self.d_head = n_head, d_model // n_head
        self.q_net = nn.Linear(d_model, d_model, bias=False)
        self.kv_net = nn.Linear(d_model, 2 * d_model, bias=False)
        self.r_net = nn.Linear(d_model, d_model, bias=False)
        self.o_net = nn.Linear(d_model, d_model, bias=False)
        self.r_w_bias = nn.Parameter(torch.randn(n_head, self.d_head))
        self.r_r_bias = nn.Parameter(torch.randn(n_head, self.d_head))
        self.register_buffer("inv_freq", 10000 ** (-torch.arange(0, d_model, 2) / d_model))

    def _rel_shift(self, x):
        # x: T x K x B x H
        pad = x.new_zeros(x.size(0), 1, *x.shape[2:])
        y = torch.cat([pad, x], 1)
        y = y.view(x.size(1) + 1, x.size(0), *x.shape[2:])
        return y[1:].view_as(x)

    def forward(self, h, mems=None):
        T, B, D = h.shape
        c = h if mems is None else torch.cat([mems, h], 0)
        K = c.size(0)
        pos = torch.arange(K - 1, -1, -1, dtype=h.dtype, device=h.device)
        ang = pos[:, None] * self.inv_freq
        r = self.r_net(torch.cat([ang.sin(), ang.cos()], -1)).view(K, self.n_head, self.d_head)

        q = self.q_net(h).view(T, B, self.n_head, self.d_head)
        k, v = self.kv_net(c).chunk(2, -1)
        k = k.view(K, B, self.n_head, self.d_head)
        v = v.view(K, B, self.n_head, self.d_head)

        AC = torch.einsum("ibnd,jbnd->ijbn", q + self.r_w_bias, k)
        BD = self._rel_shift(torch.einsum("ibnd,jnd->ijbn", q + self.r_r_bias, r))
        score = (AC + BD) / self.d_head ** 0.5
        hide = torch.ones(T, K, dtype=torch.bool, device=h.device).triu(1 + K - T)
        score = score.masked_fill(hide[:, :, None, None], -float("inf"))
        prob = score.softmax(1)
        out = torch.einsum("ijbn,jbnd->ibnd", prob, v).reshape(T, B, D)
        return self.o_net(out)
