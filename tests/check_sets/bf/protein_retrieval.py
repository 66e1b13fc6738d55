"""Soft retrieval over a bank of protein embeddings.

The same bank is queried many times, so the expensive part is memoised.
"""
import torch
from torch import nn


class BankAttention(nn.Module):
    """Weighted mixture of annotation vectors.

    query (Q, d), bank (N, d), annotations (N, a) -> (Q, a); softmax over the bank of
    query.bank / sqrt(d).
    """

    def __init__(self, d, normalise=False):
        super().__init__()
        self.d = d
        self.normalise = normalise
        self.proj = nn.Linear(d, d, bias=False)
        self._memo = {}

    def clear(self):
        self._memo.clear()

    def _weights(self, query, bank):
        key = (bank.data_ptr(), tuple(bank.shape))
        if key not in self._memo:
            b = self.proj(bank)
            q = query
            if self.normalise:
                b, q = nn.functional.normalize(b, dim=-1), nn.functional.normalize(q, dim=-1)
            self._memo[key] = torch.softmax(q @ b.T / self.d ** 0.5, dim=-1)
        return self._memo[key]

    @torch.no_grad()
    def forward(self, query, bank, annotations):
        if bank.shape[0] != annotations.shape[0]:
            raise ValueError("every protein needs an annotation")
        return self._weights(query, bank) @ annotations


def one_hot_ec(classes, n=7):
    """EC main classes 1..7 -> (N, 7)"""
    return nn.functional.one_hot(torch.as_tensor(classes) - 1, n).float()


def annotate(model, sequences_emb, bank, classes, batch=4):
    """Predict the EC class for each embedding, batch by batch."""
    ann = one_hot_ec(classes)
    out = [model(sequences_emb[i:i + batch], bank, ann) for i in range(0, len(sequences_emb), batch)]
    return torch.cat(out).argmax(-1) + 1


if __name__ == "__main__":
    torch.manual_seed(0)
    bank = torch.randn(30, 16)
    print(annotate(BankAttention(16), torch.randn(8, 16), bank, torch.randint(1, 8, (30,))))
