"""Which precedents matter for a case? Cosine attention over retrieved judgments."""
import torch
import torch.nn.functional as F
from torch import nn


class PrecedentReader(nn.Module):
    """
    Cosine-similarity attention with a learned temperature per head (as in Swin v2): the
    logits are tau_h * cos(q, k), tau_h = exp(min(log_tau_h, log 100)). So no 1/sqrt(d).

    case       (B, D)       embedding of the case
    precedents (B, P, D)    retrieved judgments
    n_found    (B,)         how many of P are real; 0 is possible, then a learned
                            "no precedent" vector is all there is to read.
    Returns the read vector (B, D) and the weights (B, heads, P + 1); place 0 is
    "no precedent", which takes part always.
    """

    def __init__(self, D=24, heads=3):
        super().__init__()
        self.heads = heads
        self.none = nn.Parameter(torch.randn(1, 1, D))
        self.wq, self.wk, self.wv = nn.Linear(D, D), nn.Linear(D, D, bias=False), nn.Linear(D, D)
        self.log_tau = nn.Parameter(torch.full((heads, 1), 10.0).log())
        self.wo = nn.Linear(D, D)

    def forward(self, case, precedents, n_found):
        B, P, D = precedents.shape
        mem = torch.cat([self.none.expand(B, 1, D), precedents], dim=1)
        q = F.normalize(self.wq(case).view(B, self.heads, -1), dim=-1)
        k = F.normalize(self.wk(mem).view(B, P + 1, self.heads, -1), dim=-1)
        v = self.wv(mem).view(B, P + 1, self.heads, -1)
        tau = self.log_tau.clamp(max=4.6052).exp()
        logits = torch.einsum("bhd,bphd->bhp", q, k) * tau
        absent = torch.arange(P + 1, device=case.device) > n_found[:, None]
        logits = logits.masked_fill(absent[:, None], float("-inf"))
        w = F.softmax(logits, dim=-1)
        read = torch.einsum("bhp,bphd->bhd", w, v).reshape(B, D)
        return self.wo(read), w
