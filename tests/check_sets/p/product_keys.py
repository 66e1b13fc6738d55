import torch
from torch import nn


class ProductKeyMemory(nn.Module):
    """Product-key memory (Lample et al. 2019): the best `knn` of n * n slots, whose keys are all pairs of two small sets of half keys;
    the softmax runs over the (unscaled) scores of the slots that were found.  x (B, dim)"""

    def __init__(self, dim=8, n_keys=5, knn=3):
        super().__init__()
        self.n, self.knn = n_keys, knn
        self.query = nn.Linear(dim, dim)
        self.keys = nn.Parameter(torch.randn(2, n_keys, dim // 2))
        self.values = nn.EmbeddingBag(n_keys * n_keys, dim, mode="sum")

    def forward(self, x):
        q1, q2 = self.query(x).chunk(2, dim=-1)
        s1, i1 = (q1 @ self.keys[0].T).topk(self.knn, dim=-1)
        s2, i2 = (q2 @ self.keys[1].T).topk(self.knn, dim=-1)
        scores = (s1[:, :, None] + s2[:, None, :]).flatten(1)
        slots = (i1[:, :, None] * self.n + i2[:, None, :]).flatten(1)
        best, where = scores.topk(self.knn, dim=-1)
        return self.values(slots.gather(1, where), per_sample_weights=best.softmax(dim=-1))
