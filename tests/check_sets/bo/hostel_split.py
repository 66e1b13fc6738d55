"""split-KV attention for the night-train / hostel booking assistant.

The session history of a traveller lies partly in CPU memory (NumPy, memory
mapped) and partly in torch tensors.  Each part gives (out, lse), both with
natural logarithms, and `merge` joins them exactly.
"""
import numpy as np
import torch


def part_numpy(q, k, v, scale):
    """q [H, Lq, d], k/v [H, n, d] as arrays; n may be 0"""
    if k.shape[1] == 0:
        return np.zeros(q.shape[:2] + v.shape[-1:], q.dtype), np.full(q.shape[:2], -np.inf, q.dtype)
    s = np.matmul(q, k.transpose(0, 2, 1)) * scale
    top = s.max(-1)
    e = np.exp(s - top[..., None])
    z = e.sum(-1)
    return np.matmul(e, v) / z[..., None], top + np.log(z)


def part_torch(q, k, v, scale, causal):
    """causal: the queries are the last Lq of these keys"""
    s = torch.matmul(q, k.transpose(-1, -2)) * scale
    if causal:
        Lq, n = s.shape[-2:]
        future = torch.ones(Lq, n, dtype=torch.bool, device=s.device).triu(n - Lq + 1)
        s = s.masked_fill(future, float("-inf"))
    lse = torch.logsumexp(s, dim=-1)
    return torch.exp(s - lse.unsqueeze(-1)) @ v, lse


def merge(o1, l1, o2, l2):
    """w1 / w2 = exp(l1 - l2)"""
    w1 = torch.sigmoid(l1 - l2).unsqueeze(-1)
    return w1 * o1 + (1 - w1) * o2, torch.logaddexp(l1, l2)


class SplitAttention:
    """history (NumPy) is all in the past, recent (torch) holds the last tokens,
    the queries among them.  __call__(q, k_new, v_new) appends and answers;
    everything is [heads, tokens, d].  Causal.  When `recent` grows past
    `limit` tokens the oldest move into the history.
    """

    def __init__(self, heads, d, limit=6, dtype=torch.float32):
        self.hk = np.zeros((heads, 0, d), torch.zeros(0, dtype=dtype).numpy().dtype)
        self.hv = self.hk.copy()
        self.k = torch.zeros(heads, 0, d, dtype=dtype)
        self.v = torch.zeros(heads, 0, d, dtype=dtype)
        self.limit, self.scale = limit, d ** -0.5

    def __call__(self, q, k_new, v_new):
        self.k = torch.cat([self.k, k_new], 1)
        self.v = torch.cat([self.v, v_new], 1)
        o_new, l_new = part_torch(q, self.k, self.v, self.scale, causal=True)
        o_old, l_old = part_numpy(q.numpy(), self.hk, self.hv, self.scale)
        out, _ = merge(torch.from_numpy(o_old), torch.from_numpy(l_old), o_new, l_new)
        self._spill()
        return out

    def _spill(self):
        extra = self.k.shape[1] - self.limit
        if extra > 0:
            self.hk = np.concatenate([self.hk, self.k[:, :extra].numpy()], 1)
            self.hv = np.concatenate([self.hv, self.v[:, :extra].numpy()], 1)
            self.k, self.v = self.k[:, extra:], self.v[:, extra:]


if __name__ == "__main__":
    torch.manual_seed(0)
    a = SplitAttention(2, 4)
    for n in (5, 3, 1, 1):
        x = torch.randn(3, 2, n, 4)
        print(a(x[0], x[1], x[2]).shape)
