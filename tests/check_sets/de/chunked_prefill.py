import math
import torch


class KVStore:
    """Grows along the time axis; tensors are (B, H, T, D)."""

    def __init__(self):
        self.k = self.v = None

    def push(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
        return self.k, self.v


def causal_step(q, k, v, store=None):
    """Causal attention for the next chunk of a prompt, or for one new token.

    q, k, v: (B, H, T, D) of the new tokens. Everything pushed into `store` before
    lies in the past of the chunk. The concatenation of the outputs of all chunks
    equals the output of one call with the whole prompt.
    """
    if store is not None:
        k, v = store.push(k, v)
    n_q, n_k = q.shape[2], k.shape[2]
    s = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(q.shape[3])
    if n_q > 1:
        allowed = torch.ones(n_q, n_k, dtype=torch.bool, device=q.device).tril()
        s = s.masked_fill(~allowed, float("-inf"))
    p = torch.softmax(s.float(), dim=-1).to(v.dtype)
    return torch.matmul(p, v)


def run_prompt(q, k, v, chunk=4):
    store, outs = KVStore(), []
    for t in range(0, q.shape[2], chunk):
        sl = slice(t, t + chunk)
        outs.append(causal_step(q[:, :, sl], k[:, :, sl], v[:, :, sl], store))
    return torch.cat(outs, dim=2)
