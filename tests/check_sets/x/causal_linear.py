import torch as th
import torch.nn as nn
import torch.nn.functional as F
# Katharopoulos et al. "Transformers are RNNs", plain pytorch (slow but exact)


def phi(x):
    return F.elu(x) + 1.


def causal_lin_att(q, k, v, eps=1e-6):
    """q,k: b h n d, v: b h n e"""
    q, k = phi(q), phi(k)
    z = 1. / (th.einsum('bhnd,bhnd->bhn', q, k.cumsum(2)) + eps)
    kv = th.einsum('bhnd,bhne->bhnde', k, v).cumsum(2)
    return th.einsum('bhnd,bhnde,bhn->bhne', q, kv, z)


class LinTransformerLayer(nn.Module):
    def __init__(self, dim, n_heads=4, ff_mult=2, dropout=0.0):
        super().__init__()
        self.n_heads = n_heads
        self.pre = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, ff_mult * dim), nn.GELU(), nn.Linear(ff_mult * dim, dim))
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, self.n_heads, -1).transpose(1, 2) for t in self.to_qkv(self.pre(x)).chunk(3, dim=-1))
        o = causal_lin_att(q, k, v)
        x = x + self.drop(self.to_out(o.transpose(1, 2).flatten(2)))
        return x + self.drop(self.ff(x))
