"""
Dialect atlas: word forms of one village are read together to guess its isogloss bundle.

``VillageEncoder`` returns (encoding, attention).  ``attention`` is what we draw on the
map: for each word form the share of attention that it pays to every other form,
non-negative and summing to one.

Conventions
    forms    (V, W, E)  V villages, W elicited forms, E features
    recorded (V, W)     bool, True = informant gave a form, False = gap in the protocol.
                        Gaps never receive attention.
"""
import math

import torch
import torch.nn as nn


class FormAttention(nn.Module):
    def __init__(self, E, heads):
        super().__init__()
        self.E, self.heads = E, heads
        self.q_net = nn.Linear(E, E)
        self.k_net = nn.Linear(E, E)
        self.v_net = nn.Linear(E, E)
        self.merge = nn.Linear(E, E)

    def _heads(self, t):
        V, W, _ = t.size()
        return t.view(V, W, self.heads, self.E // self.heads).permute(0, 2, 1, 3)

    def forward(self, forms, recorded=None):
        V, W, E = forms.size()
        q = self._heads(self.q_net(forms))
        k = self._heads(self.k_net(forms))
        v = self._heads(self.v_net(forms))
        attn = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(E // self.heads)
        if recorded is not None:
            attn = attn.masked_fill(~recorded.unsqueeze(1).unsqueeze(3), -1e9)
        ctx = torch.matmul(attn.softmax(dim=3), v)
        ctx = ctx.permute(0, 2, 1, 3).contiguous().view(V, W, E)
        return self.merge(ctx), attn


class VillageEncoder(nn.Module):
    """Two rounds of attention, then a mean over the recorded forms."""

    def __init__(self, E=48, heads=4, bundles=9):
        super().__init__()
        self.a1, self.a2 = FormAttention(E, heads), FormAttention(E, heads)
        self.n1, self.n2 = nn.LayerNorm(E), nn.LayerNorm(E)
        self.cls = nn.Linear(E, bundles)

    def forward(self, forms, recorded):
        y, _ = self.a1(self.n1(forms), recorded)
        forms = forms + y
        y, attention = self.a2(self.n2(forms), recorded)
        forms = forms + y
        w = recorded.float().unsqueeze(-1)
        mean = (forms * w).sum(1) / w.sum(1).clamp(min=1)
        return self.cls(mean), attention


def draw(attention, names, top=3):
    """Strongest links of each form, averaged over heads; attention of one village."""
    a = attention.mean(0)
    for i, n in enumerate(names):
        vals, idx = a[i].topk(min(top, len(names)))
        print(f"{n:>14}", " ".join(f"{names[j]}={v:.2f}" for v, j in zip(vals.tolist(), idx.tolist())))
