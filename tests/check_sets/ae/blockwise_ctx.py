import torch


@torch.no_grad()
def blockwise_attention(q, k, v, block=64):
    """Exact softmax attention for long contexts without the full score matrix.

    q: (..., M, D), k: (..., N, D), v: (..., N, E). Goes over k/v in blocks of `block` rows and keeps
    a running maximum and normaliser, so peak memory is O(M * block).
    """
    *lead, M, D = q.shape
    q = q * D ** -0.5
    run_max = q.new_full((*lead, M, 1), float("-inf"))
    norm = q.new_zeros((*lead, M, 1))
    acc = q.new_zeros((*lead, M, v.shape[-1]))

    for kb, vb in zip(k.split(block, dim=-2), v.split(block, dim=-2)):
        s = q @ kb.mT
        new_max = torch.maximum(run_max, s.amax(-1, keepdim=True))
        p = (s - new_max).exp()
        fix = (run_max - new_max).exp()
        norm = norm * fix + p.sum(-1, keepdim=True)
        acc = acc + p @ vb
        run_max = new_max
    return acc / norm


class LongContextReader:
    def __init__(self, block=64):
        self.block = block
        self.keys, self.values = [], []

    def add(self, k, v):
        self.keys.append(k)
        self.values.append(v)

    def read(self, q):
        return blockwise_attention(q, torch.cat(self.keys, -2), torch.cat(self.values, -2), self.block)
