import torch
from torch import nn


class SinkWindow(nn.Module):
    """Sliding-window GQA with one learned sink logit per query head.

    The sink takes part in the normalisation but has no value, so a head may
    attend to "nothing". Each token sees itself and at most window - 1 tokens
    before it.
    """

    def __init__(self, conf):
        super().__init__()
        self.hq, self.hk, self.d = conf["q_heads"], conf["kv_heads"], conf["head_dim"]
        self.window = conf["window"]
        self.wq = nn.Linear(conf["hidden"], self.hq * self.d)
        self.wkv = nn.Linear(conf["hidden"], 2 * self.hk * self.d)
        self.wo = nn.Linear(self.hq * self.d, conf["hidden"])
        self.sink = nn.Parameter(torch.randn(self.hq))

    def forward(self, x):
        B, L, _ = x.shape
        q = self.wq(x).view(B, L, self.hq, self.d).transpose(1, 2)
        k, v = self.wkv(x).view(B, L, 2, self.hk, self.d).unbind(2)
        rep = self.hq // self.hk
        k = k.transpose(1, 2).repeat_interleave(rep, dim=1)
        v = v.transpose(1, 2).repeat_interleave(rep, dim=1)
        z = torch.matmul(q, k.transpose(2, 3)) * self.d ** -0.5
        t = torch.arange(L, device=x.device)
        ago = t[:, None] - t[None, :]
        z = z.masked_fill((ago < 0) | (ago >= self.window), float("-inf"))
        s = self.sink.view(1, -1, 1, 1).expand(B, -1, L, 1)
        p = torch.cat([z, s], dim=-1).softmax(dim=-1)[..., :-1]
        return self.wo((p @ v).transpose(1, 2).flatten(2))
