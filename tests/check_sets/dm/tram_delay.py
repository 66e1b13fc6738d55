"""Will the tram be late?  Temporal attention over the last stops, with F.sdpa.

    stops  (B, T, D)      embedded stops
    bias   (B, T)         additive mask: 0.0 for a recorded stop, -inf for a missing one
                          (it is added to the scores in the notebook version);
                          every trip has at least one recorded stop
    out    (B,)           expected delay in minutes

`p` is the attention dropout while training.  In eval() the same trip always gives the same
delay.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TramAttention(nn.Module):
    def __init__(self, D, heads, p=0.2):
        super().__init__()
        self.heads, self.p = heads, p
        self.kqv = nn.Linear(D, 3 * D)
        self.mix = nn.Linear(D, D)

    def forward(self, stops, bias):
        B, T, D = stops.shape
        k, q, v = self.kqv(stops).view(B, T, 3, self.heads, -1).transpose(1, 3).unbind(2)
        mask = bias.bool()[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.p)
        return self.mix(y.transpose(1, 2).reshape(B, T, D))


class TramNet(nn.Module):
    def __init__(self, D=32, heads=4):
        super().__init__()
        self.att = TramAttention(D, heads)
        self.norm = nn.LayerNorm(D)
        self.head = nn.Linear(D, 1)

    def forward(self, stops, bias):
        x = self.norm(stops + self.att(stops, bias))
        there = torch.isfinite(bias).to(x.dtype).unsqueeze(-1)
        x = (x * there).sum(1) / there.sum(1)
        return self.head(x).squeeze(-1)
