"""Whole-night sleep apnoea score from a bag of 30-second epochs.

Multiple-instance learning with gated attention (Ilse, Tomczak, Welling 2018):

    a_k = softmax_k  w^T ( tanh(V h_k) * sigm(U h_k) )
    z   = sum_k a_k h_k

Nights have different lengths; instead of padding, all epochs of a batch are
concatenated and ``night`` says to which night each one belongs.
"""
import torch
import torch.nn as nn


class EpochCNN(nn.Module):
    def __init__(self, ch=4, dim=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(ch, 16, 25, stride=6), nn.ReLU(), nn.MaxPool1d(4),
            nn.Conv1d(16, 32, 9, stride=2), nn.ReLU(), nn.AdaptiveAvgPool1d(8))
        self.fc = nn.Linear(32 * 8, dim)

    def forward(self, x):
        return self.fc(self.net(x).flatten(1))


class GatedBagPooling(nn.Module):
    """h (K, D) epochs of several nights, night (K,) in 0..n_nights-1.

    returns z (n_nights, D) and a (K,) -- a sums to one within each night.
    `temperature` > 1 flattens the weights (we used 1 for the paper).
    """

    def __init__(self, dim=64, hidden=32, temperature=1.0):
        super().__init__()
        self.V = nn.Linear(dim, hidden)
        self.U = nn.Linear(dim, hidden)
        self.w = nn.Linear(hidden, 1, bias=False)
        self.temperature = temperature

    def forward(self, h, night, n_nights):
        s = self.w(torch.tanh(self.V(h)) * torch.sigmoid(self.U(h))).squeeze(-1)
        s = s / self.temperature
        # per-night softmax; the maximum is a constant for the gradient
        peak = torch.full((n_nights,), -torch.inf, dtype=s.dtype, device=s.device)
        peak = peak.index_reduce(0, night, s.detach(), "amax", include_self=True)
        e = torch.exp(s - peak[night])
        total = torch.zeros(n_nights, dtype=s.dtype, device=s.device).index_add(0, night, e)
        a = e / total[night]
        z = torch.zeros(n_nights, h.shape[1], dtype=h.dtype, device=h.device)
        return z.index_add(0, night, a[:, None] * h), a


class ApnoeaNet(nn.Module):
    def __init__(self, n_classes=4):
        super().__init__()
        self.enc = EpochCNN()
        self.pool = GatedBagPooling()
        self.cls = nn.Linear(64, n_classes)

    def forward(self, x, night):
        n = int(night.max()) + 1
        z, a = self.pool(self.enc(x), night, n)
        return self.cls(z), a


def top_epochs(a, night, which, k=5):
    """Indices of the k most relevant epochs of a night, for the physician."""
    idx = torch.nonzero(night == which).squeeze(1)
    order = a[idx].argsort(descending=True)[:k]
    return idx[order]


if __name__ == "__main__":
    x = torch.randn(11, 4, 3000)
    night = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    logits, a = ApnoeaNet()(x, night)
    print(logits.shape, top_epochs(a, night, 1, 2))
