import torch


def make_reader(dim, chunk=256):
    """Reader for a feature bank which doesn't fit on the card next to its score matrix.

    read(q, bank): q (n, dim), bank iterable of (keys (c, dim), values (c, f)), c arbitrary
    returns (n, f) == softmax(q K^T / sqrt(dim)) V with all keys and values stacked
    """
    root = dim ** 0.5

    def pieces(bank):
        for keys, values in bank:
            yield from zip(keys.split(chunk), values.split(chunk))

    @torch.no_grad()
    def read(q, bank):
        n = q.shape[0]
        big = q.new_full((n, 1), -torch.inf)
        den = q.new_zeros(n, 1)
        num = None
        for k, v in pieces(bank):
            s = torch.addmm(q.new_zeros(1), q, k.t(), alpha=1 / root, beta=0)
            now = torch.maximum(big, s.amax(1, keepdim=True))
            p = torch.exp(s - now)
            keep = torch.exp(big - now)
            pv = p @ v
            num = pv if num is None else torch.addcmul(pv, num, keep)
            den = den + p.sum(1, keepdim=True)
            big = now
        return num / den

    return read


class FeatureBank:
    def __init__(self):
        self.blocks = []

    def add(self, keys, values):
        self.blocks.append((keys.detach(), values.detach()))

    def __iter__(self):
        return iter(self.blocks)

    def __len__(self):
        return sum(len(k) for k, _ in self.blocks)


if __name__ == "__main__":
    fb = FeatureBank()
    for _ in range(4):
        fb.add(torch.randn(300, 32), torch.randn(300, 8))
    print(len(fb), make_reader(32)(torch.randn(10, 32), fb).shape)
