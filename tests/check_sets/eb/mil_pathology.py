"""Gated attention MIL for whole slide images (after Ilse et al. 2018), batch of bags.

A slide is a bag of N patch features; the bag embedding is a weighted mean of its patches:

    a_n = softmax over the patches n of   w^T ( tanh(V h_n) * sigmoid(U h_n) )
    z   = sum_n a_n h_n

All bags of a batch are cut to the same N, so there is no padding.
"""
import torch
import torch.nn as nn


class GatedMIL(nn.Module):
    def __init__(self, feat=64, hid=32, n_cls=2):
        super().__init__()
        self.squeeze = nn.Sequential(nn.Linear(feat, hid), nn.ReLU())
        self.V = nn.Linear(hid, hid)
        self.U = nn.Linear(hid, hid)
        self.w = nn.Linear(hid, 1)
        self.head = nn.Linear(hid, n_cls)

    def forward(self, bag):
        """bag: (B, N, feat) -> logits (B, n_cls), attention (B, N)"""
        h = self.squeeze(bag)
        a = self.w(torch.tanh(self.V(h)) * torch.sigmoid(self.U(h)))     # (B, N, 1)
        a = torch.softmax(a, dim=0)
        z = torch.sum(a * h, dim=1)
        return self.head(z), a.squeeze(-1)


def top_patches(model, bag, k=8):
    """indices (B, k) of the patches with the largest attention, for the heat map"""
    model.eval()
    with torch.no_grad():
        _, a = model(bag)
    return a.topk(min(k, bag.shape[1]), dim=1).indices
