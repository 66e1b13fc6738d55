import torch
from torch import nn


class StreamingAttention(nn.Module):
    """Streaming self-attention with a rolling cache: a frame attends to the last `context` frames, itself included.

    forward(x): x (B, T, dim), fed frame by frame from an empty cache.
    """

    def __init__(self, dim, n_heads=2, context=3):
        super().__init__()
        self.n_heads, self.context = n_heads, context
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.to_out = nn.Linear(dim, dim)

    def frame(self, x, cache):
        q, k, v = self.to_qkv(x).unflatten(-1, (3, self.n_heads, -1)).unbind(1)
        if cache is not None:
            k_all, v_all = torch.cat([cache[0], k[:, None]], 1), torch.cat([cache[1], v[:, None]], 1)
        else:
            k_all, v_all = k[:, None], v[:, None]
        w = torch.softmax((q[:, None] * k_all).sum(-1) / q.shape[-1] ** 0.5, dim=1)
        y = (w[..., None] * v_all).sum(1)
        keep = self.context
        return self.to_out(y.flatten(1)), (k_all[:, -keep:], v_all[:, -keep:])

    def forward(self, x):
        cache, out = None, []
        for step in x.unbind(1):
            y, cache = self.frame(step, cache)
            out.append(y)
        return torch.stack(out, 1)
