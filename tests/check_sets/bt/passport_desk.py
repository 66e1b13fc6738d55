"""Passport office: suggests earlier cases to the clerk while the form is being typed.

The encoder is torch (trained elsewhere); the desk machine has no GPU, so the reading of the
archive itself is NumPy. The clerk's screen refreshes many times without anything having
changed, therefore finished reading weights are remembered for a while.
"""
import collections
import hashlib

import numpy as np
import torch
from torch import nn


class FormEncoder(nn.Module):
    """Bag of hashed character trigrams -> question and label vectors."""

    def __init__(self, buckets=512, dim=12):
        super().__init__()
        self.buckets = buckets
        self.table = nn.EmbeddingBag(buckets, dim, mode="mean")
        self.ask = nn.Linear(dim, dim, bias=False)
        self.tell = nn.Linear(dim, dim, bias=False)

    def trigrams(self, text):
        t = f"  {text.lower()} "
        return torch.tensor([int(hashlib.md5(t[i:i + 3].encode()).hexdigest(), 16) % self.buckets for i in range(len(t) - 2)])

    @torch.inference_mode()
    def forward(self, texts):
        bags = torch.cat([self.table(self.trigrams(t)[None]) for t in texts])
        return self.ask(bags).numpy(), self.tell(bags).numpy()


class Remember(collections.OrderedDict):
    """Least recently used, `size` entries."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def fetch(self, name, make):
        if name in self:
            self.move_to_end(name)
        else:
            self[name] = make()
            if len(self) > self.size:
                self.popitem(last=False)
        return self[name]


def fingerprint(*arrays):
    h = hashlib.blake2b(digest_size=16)
    for a in arrays:
        h.update(str(a.shape).encode())
        h.update(np.ascontiguousarray(a).tobytes())
    return h.digest()


class ArchiveReader:
    """Scaled dot-product attention of form lines over archived cases.

    q [Q, d], k [N, d], v [N, e] -> (read [Q, e], weights [Q, N])
    """

    def __init__(self, size=32):
        self.memory = Remember(size)

    @staticmethod
    def weights(q, k):
        z = q.astype(np.float64) @ k.astype(np.float64).T / np.sqrt(q.shape[-1])
        z = np.exp(z - z.max(axis=-1, keepdims=True))
        return z / z.sum(axis=-1, keepdims=True)

    def __call__(self, q, k, v):
        w = self.memory.fetch(fingerprint(k), lambda: self.weights(q, k))
        return w @ v, w


class Desk:
    def __init__(self, archive, outcomes, encoder=None):
        self.encoder = (encoder or FormEncoder()).eval()
        self.archive = list(archive)
        _, self.keys = self.encoder(self.archive)
        self.values = np.eye(max(outcomes) + 1)[outcomes]
        self.reader = ArchiveReader()

    def suggest(self, lines, top=2):
        q, _ = self.encoder(lines)
        outcome, w = self.reader(q, self.keys, self.values)
        best = np.argsort(-w, axis=1)[:, :top]
        return outcome, [[self.archive[j] for j in row] for row in best]


def main():
    torch.manual_seed(0)
    desk = Desk(["lost abroad, police report missing", "minor, one parent signs", "name changed by marriage"], [0, 1, 1])
    for typed in ("child, father abr", "child, father abroad"):
        print(desk.suggest([typed]))


if __name__ == "__main__":
    main()
