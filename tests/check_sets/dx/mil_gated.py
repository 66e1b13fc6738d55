"""Gated attention pooling for multiple-instance learning (Ilse, Tomczak, Welling 2018).

We have whole-slide images; a slide (bag) is a varying number of patches (instances), and only
the slide has a label. All patches of a batch are concatenated:

    patches  (P, D) float   features of all patches of all slides
    slide    (P,)   int64   which slide each patch is from, values 0 .. n_slides-1, any order
    n_slides int            every slide has at least one patch

    a_p = softmax over the patches p of the same slide of   w^T (tanh(V h_p) * sigmoid(U h_p))
    M_s = sum_{p in s} a_p h_p
There are K such attention branches (one per class, "CLAM" style), each with its own w.

Returns logits (n_slides, K) and the attention (P, K), which sums to 1 within each slide for
every branch - this is what we draw as heat map.
"""
import torch
import torch.nn as nn


class GatedMIL(nn.Module):
    def __init__(self, D=48, hidden=24, K=3):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(D, D), nn.ReLU())
        self.V = nn.Linear(D, hidden)
        self.U = nn.Linear(D, hidden)
        self.w = nn.Linear(hidden, K)
        self.clf = nn.Parameter(torch.randn(K, D) * D ** -0.5)
        self.bias = nn.Parameter(torch.zeros(K))

    def forward(self, patches, slide, n_slides):
        h = self.embed(patches)
        score = self.w(torch.tanh(self.V(h)) * torch.sigmoid(self.U(h)))      # P, K

        # one-hot membership is small enough here: P x n_slides
        member = slide.unsqueeze(1) == torch.arange(n_slides, device=slide.device)
        per_slide = score.t().unsqueeze(-1).masked_fill(~member, float("-inf"))   # K, P, S
        A = per_slide.softmax(dim=1)
        M = torch.einsum("kps,pd->skd", A, h)
        logits = (M * self.clf).sum(-1) + self.bias
        return logits, A.sum(-1).t()
