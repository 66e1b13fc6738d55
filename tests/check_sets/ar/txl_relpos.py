"""Port of the Transformer-XL relative attention to batch-first PyTorch (enwik8 toy).

score(i, j) = (q_i + u) . k_j + (q_i + v) . W_r r_{i-j},   all divided by sqrt(d_head)
Keys are [memory ; segment]; memory gets no gradient. Causal.
"""
import torch
import torch.nn as nn


def sinusoid(pos_seq, d):
    inv = 1.0 / (10000 ** (torch.arange(0.0, d, 2.0) / d))
    ang = torch.outer(pos_seq, inv)
    return torch.cat([ang.sin(), ang.cos()], dim=-1)


class RelMHA(nn.Module):
    def __init__(self, n_head, d_model, d_head, dropout=0.0):
        super().__init__()
        self.n_head, self.d_head, self.d_model = n_head, d_head, d_model
        self.qkv_net = nn.Linear(d_model, 3 * n_head * d_head, bias=False)
        self.r_net = nn.Linear(d_model, n_head * d_head, bias=False)
        self.o_net = nn.Linear(n_head * d_head, d_model, bias=False)
        self.u = nn.Parameter(torch.randn(n_head, d_head) * 0.02)
        self.v = nn.Parameter(torch.randn(n_head, d_head) * 0.02)
        self.drop = nn.Dropout(dropout)
        self.scale = 1 / d_head ** 0.5

    @staticmethod
    def _rel_shift(x):
        # x[..., i, p]: p = 0 is distance klen-1, last p is distance 0
        b, h, q, k = x.shape
        x = torch.cat([x.new_zeros(b, h, q, 1), x], dim=-1)
        return x.view(b, h, k + 1, q)[:, :, 1:].reshape(b, h, q, k)

    def forward(self, w, mems=None):
        B, qlen, _ = w.shape
        cat = w if mems is None else torch.cat([mems.detach(), w], dim=1)
        klen = cat.size(1)
        q, k, val = self.qkv_net(cat).view(B, klen, 3, self.n_head, self.d_head).unbind(2)
        q = q[:, -qlen:]
        r = sinusoid(torch.arange(klen - 1, -1, -1.0, device=w.device), self.d_model).to(w.dtype)
        r = self.r_net(r).view(klen, self.n_head, self.d_head)

        AC = torch.einsum("bind,bjnd->bnij", q + self.u, k)
        BD = self._rel_shift(torch.einsum("bind,jnd->bnij", q + self.v, r))
        score = (AC + BD) * self.scale
        hide = torch.ones(qlen, klen, dtype=torch.bool, device=w.device).triu(1 + klen - qlen)
        score = score.masked_fill(hide, float("-inf"))
        prob = self.drop(torch.softmax(score, dim=3))
        vec = torch.einsum("bnij,bjnd->bind", prob, val)
        return self.o_net(vec.reshape(B, qlen, -1))


class XLLayer(nn.Module):
    def __init__(self, n_head, d_model, d_head, d_inner):
        super().__init__()
        self.att, self.ln1, self.ln2 = RelMHA(n_head, d_model, d_head), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_inner), nn.ReLU(), nn.Linear(d_inner, d_model))

    def forward(self, x, mem):
        x = self.ln1(x + self.att(x, mem))
        return self.ln2(x + self.ff(x))


def update_mems(old, hids, mem_len):
    both = hids if old is None else torch.cat([old, hids], dim=1)
    return both[:, -mem_len:].detach()


if __name__ == "__main__":
    l = XLLayer(2, 16, 8, 32)
    mem = None
    for seg in torch.randn(3, 2, 4, 16):
        y = l(seg, mem)
        mem = update_mems(mem, seg, 6)
    print(y.shape, mem.shape)
