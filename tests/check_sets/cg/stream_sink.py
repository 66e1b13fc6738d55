"""Streaming session encoder for the intrusion-detection pipeline.

Every head owns a learned *sink* logit that takes part in the softmax but has no
value: a head that finds nothing of interest may put its mass there.  The weights
over the events therefore sum to less than one, on purpose.

    w_ij = exp(s_ij) / (exp(sink_h) + sum_j exp(s_ij)),   s_ij = q_i.k_j / sqrt(d)

Events are in time order and only look back; padded events come last.
"""
import torch
from torch import nn


class SinkAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.head_width = width // heads
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.o_proj = nn.Linear(width, width)
        self.sinks = nn.Parameter(torch.randn(heads))

    def forward(self, events, n_events):
        bsz, steps, _ = events.shape
        shape = (bsz, steps, self.heads, self.head_width)
        q = self.q_proj(events).view(shape).transpose(1, 2)
        k = self.k_proj(events).view(shape).transpose(1, 2)
        v = self.v_proj(events).view(shape).transpose(1, 2)

        t = torch.arange(steps, device=events.device)
        allowed = (t[None, :] <= t[:, None])[None] & (t[None, :] < n_events[:, None])[:, None, :]
        scores = torch.matmul(q, k.transpose(2, 3)) * self.head_width ** -0.5
        scores = scores.masked_fill(~allowed[:, None], torch.finfo(scores.dtype).min)

        sink = self.sinks.view(1, -1, 1, 1).expand(bsz, -1, steps, 1)
        joint = torch.cat([scores, sink], dim=-1)
        probs = torch.softmax(joint.float(), dim=-1).to(v.dtype)
        ctx = torch.matmul(probs[..., :-1], v)
        ctx = ctx.transpose(1, 2).contiguous().view(bsz, steps, -1)
        return self.o_proj(ctx)


class SessionEncoder(nn.Module):
    def __init__(self, n_types=50, width=32, heads=4, layers=2):
        super().__init__()
        self.table = nn.Embedding(n_types, width)
        self.layers = nn.ModuleList()
        for _ in range(layers):
            self.layers.append(nn.ModuleDict({"norm": nn.LayerNorm(width),
                                              "att": SinkAttention(width, heads)}))
        self.risk = nn.Linear(width, 1)

    def forward(self, types, n_events):
        x = self.table(types)
        for layer in self.layers:
            x = x + layer["att"](layer["norm"](x), n_events)
        last = x[torch.arange(len(x)), n_events - 1]
        return self.risk(last).squeeze(-1)
