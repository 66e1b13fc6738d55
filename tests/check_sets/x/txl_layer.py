import torch
import torch.nn as nn
import torch.nn.functional as F


class RelPartialLearnableAttn(nn.Module):
    """Transformer-XL attention with segment recurrence.

    w: (qlen, bsz, d_model), mems: (mlen, bsz, d_model) or None
    score(i, j) = (q_i + u) . k_j + (q_i + v) . r_{i - j}, distances counted over memory and segment
    """

    def __init__(self, n_head=4, d_model=32, d_head=8):
        super().__init__()
        self.n_head, self.d_head, self.d_model = n_head, d_head, d_model
        self.qkv_net = nn.Linear(d_model, 3 * n_head * d_head, bias=False)
        self.r_net = nn.Linear(d_model, n_head * d_head, bias=False)
        self.o_net = nn.Linear(n_head * d_head, d_model, bias=False)
        self.r_w_bias = nn.Parameter(torch.randn(n_head, d_head) * 0.1)
        self.r_r_bias = nn.Parameter(torch.randn(n_head, d_head) * 0.1)
        self.layer_norm = nn.LayerNorm(d_model)
        self.scale = 1 / (d_head ** 0.5)
        self.register_buffer("inv_freq", 1 / (10000 ** (torch.arange(0.0, d_model, 2.0) / d_model)))

    def pos_emb(self, klen):
        pos_seq = torch.arange(klen - 1, -1, -1.0, device=self.inv_freq.device)
        sinusoid = torch.outer(pos_seq, self.inv_freq)
        return torch.cat([sinusoid.sin(), sinusoid.cos()], dim=-1)

    @staticmethod
    def _rel_shift(x):
        # x: (qlen, klen, bsz, n_head); column klen - 1 - d of row i goes to the key at distance d
        zero_pad = x.new_zeros((x.size(0), 1) + x.shape[2:])
        x_padded = torch.cat([x, zero_pad], dim=1)
        x_padded = x_padded.view((x.size(1) + 1, x.size(0)) + x.shape[2:])
        return x_padded[1:].view_as(x)

    def forward(self, w, mems=None):
        qlen, bsz, _ = w.shape
        cat = w if mems is None else torch.cat([mems, w], 0)
        klen = cat.size(0)
        q, k, v = self.qkv_net(cat).chunk(3, dim=-1)
        q = q[-qlen:].view(qlen, bsz, self.n_head, self.d_head)
        k = k.view(klen, bsz, self.n_head, self.d_head)
        v = v.view(klen, bsz, self.n_head, self.d_head)
        r = self.r_net(self.pos_emb(klen).to(w.dtype)).view(klen, self.n_head, self.d_head)

        AC = torch.einsum("ibnd,jbnd->ijbn", q + self.r_w_bias, k)
        BD = self._rel_shift(torch.einsum("ibnd,jnd->ijbn", q + self.r_r_bias, r))
        score = (AC + BD) * self.scale
        ahead = torch.triu(torch.ones(qlen, klen, dtype=torch.bool, device=w.device), 1 + klen - qlen)
        score = score.masked_fill(ahead[:, :, None, None], float("-inf"))
        prob = F.softmax(score, dim=1)
        vec = torch.einsum("ijbn,jbnd->ibnd", prob, v).reshape(qlen, bsz, -1)
        return self.layer_norm(w + self.o_net(vec))
