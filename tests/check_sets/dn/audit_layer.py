"""Self-attention that keeps its weights for inspection.

AuditAttention(dim, heads, p)
    forward(x, may_read=None) -> (y, w)
        x         (B, L, dim)
        may_read  (L, L) or (B, L, L) bool, True = row may read column; each row
                  has at least one True
        y         (B, L, dim)
        w         (B, heads, L, L) attention weights as they come out of the
                  softmax: each row sums to one, in train and in eval mode
Dropout with rate p acts on the weights that multiply the values, in training
only; in eval mode the layer is deterministic.

Recorder collects w of several layers by name (detached):
    with Recorder(model) as rec:
        model(x)
    rec.maps["blocks.0.attn"]
"""
import torch
import torch.nn.functional as F
from torch import nn


class AuditAttention(nn.Module):
    def __init__(self, dim, heads=4, p=0.1):
        super().__init__()
        self.heads, self.p = heads, p
        self.d = dim // heads
        self.in_proj = nn.Parameter(torch.empty(3, heads, self.d, dim))
        self.out = nn.Linear(dim, dim)
        nn.init.normal_(self.in_proj, std=dim ** -0.5)

    def forward(self, x, may_read=None):
        q, k, v = torch.einsum("blc,shdc->sbhld", x, self.in_proj)
        s = torch.matmul(q, k.transpose(-2, -1)) / self.d ** 0.5
        if may_read is not None:
            if may_read.dim() == 3:
                may_read = may_read.unsqueeze(1)
            s = s.masked_fill(~may_read, float("-inf"))
        w = s.softmax(dim=-1)
        w = F.dropout(w, self.p)
        y = torch.matmul(w, v).transpose(1, 2).flatten(2)
        return self.out(y), w


class Recorder:
    def __init__(self, model):
        self.model = model
        self.maps = {}
        self.hooks = []

    def __enter__(self):
        for name, module in self.model.named_modules():
            if isinstance(module, AuditAttention):
                self.hooks.append(module.register_forward_hook(self._keep(name)))
        return self

    def _keep(self, name):
        def hook(module, args, result):
            self.maps[name] = result[1].detach()
        return hook

    def __exit__(self, *exc):
        for h in self.hooks:
            h.remove()
        return False
