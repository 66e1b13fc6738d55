"""
skilift_port
============
The valley office trains with torch, the lift huts only have numpy.
`export_block` turns one nn.MultiheadAttention into arrays, `QueueAttentionNp`
runs them.  Same conventions as torch: key_padding_mask True = ignore.
"""
import io

import numpy as np
import torch
from torch import nn


def train_side(dim=12, heads=3, seed=0):
    torch.manual_seed(seed)
    return nn.MultiheadAttention(dim, heads, batch_first=True).eval()


def export_block(mha: nn.MultiheadAttention) -> bytes:
    sd = {k: v.detach().cpu().numpy() for k, v in mha.state_dict().items()}
    buf = io.BytesIO()
    np.savez(buf, heads=np.int64(mha.num_heads), **sd)
    return buf.getvalue()


def softmax_rows(x):
    x = x - x.max(-1, keepdims=True)
    np.exp(x, out=x)
    return x / x.sum(-1, keepdims=True)


class QueueAttentionNp:
    def __init__(self, blob: bytes):
        z = np.load(io.BytesIO(blob))
        self.heads = int(z["heads"])
        w, b = z["in_proj_weight"], z["in_proj_bias"]
        self.dim = w.shape[1]
        self.wq, self.wk, self.wv = (w[i * self.dim:(i + 1) * self.dim] for i in range(3))
        self.bq, self.bk, self.bv = (b[i * self.dim:(i + 1) * self.dim] for i in range(3))
        self.wo, self.bo = z["out_proj.weight"], z["out_proj.bias"]

    def _cut(self, x, w, b):
        y = x @ w.T + b
        n, t, _ = y.shape
        return y.reshape(n, t, self.heads, self.dim // self.heads).swapaxes(1, 2)

    def __call__(self, query, context, key_padding_mask=None):
        """query [n, t, dim], context [n, s, dim], key_padding_mask [n, s] -> [n, t, dim], [n, t, s]

        The second result is the mean of the heads' weights.
        """
        q = self._cut(query, self.wq, self.bq)
        k = self._cut(context, self.wk, self.bk)
        v = self._cut(context, self.wv, self.bv)
        s = np.einsum("nhtd,nhsd->nhts", q, k) / np.sqrt(q.shape[-1]).astype(q.dtype)
        if key_padding_mask is not None:
            s = np.where(key_padding_mask[:, None, None, :], -np.inf, s).astype(s.dtype)
        p = softmax_rows(s)
        y = (p @ v).swapaxes(1, 2).reshape(query.shape[0], query.shape[1], self.dim)
        return y @ self.wo.T + self.bo, p.mean(1)


def check(n=2, t=4, s=6):
    mha = train_side()
    port = QueueAttentionNp(export_block(mha))
    q, c = torch.randn(n, t, 12), torch.randn(n, s, 12)
    with torch.no_grad():
        a = mha(q, c, c)[0].numpy()
    return np.abs(a - port(q.numpy(), c.numpy())[0]).max()


if __name__ == "__main__":
    print("largest difference:", check())
