"""Whole-slide classification from tile features, gated attention pooling (Ilse et al. 2018, eq. 9)."""
import torch
import torch.nn as nn


class GatedMIL(nn.Module):
    """bags (B, tiles, feat), n_tiles (B,) with the number of real tiles per slide (>= 1, rest is
    zero padding) -> (prob (B,), A (B, tiles)).

    a_k = softmax_k { w . (tanh(V h_k) * sigmoid(U h_k)) } over the real tiles of the slide;
    the slide vector is sum_k a_k h_k.
    """

    def __init__(self, feat=64, hid=32):
        super().__init__()
        self.h = nn.Sequential(nn.Linear(feat, feat), nn.ReLU())
        self.V = nn.Linear(feat, hid)
        self.U = nn.Linear(feat, hid)
        self.w = nn.Linear(hid, 1)
        self.clf = nn.Linear(feat, 1)

    def forward(self, bags, n_tiles):
        H = self.h(bags)
        a = self.w(torch.tanh(self.V(H)) * torch.sigmoid(self.U(H)))           # B x K x 1
        k = torch.arange(bags.size(1), device=bags.device).view(1, -1, 1)
        a = a.masked_fill(k >= n_tiles.view(-1, 1, 1), float("-inf"))
        A = torch.softmax(a, dim=1)                                            # over tiles
        M = torch.bmm(A.transpose(1, 2), H).squeeze(1)
        return torch.sigmoid(self.clf(M)).squeeze(-1), A.squeeze(-1)
