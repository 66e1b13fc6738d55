# splitkv_merge.py -- host-side model of the split-KV decode path.
#
# Every worker owns a slice of the sequence's KV and answers with a pair
# (partial output, log-sum-exp).  The coordinator merges the pairs.  This file
# is the oracle for the integration tests of the engine, so it is kept small.
import numpy as np

LOG2E = 1.4426950408889634


class Worker:
    """Holds the KV slice of one shard.  keys/values: [S, H, D]."""

    def __init__(self, n_heads, head_dim, dtype=np.float32):
        self.k = np.zeros((0, n_heads, head_dim), dtype)
        self.v = np.zeros((0, n_heads, head_dim), dtype)

    def append(self, k, v):
        self.k = np.concatenate([self.k, k[None]], axis=0)
        self.v = np.concatenate([self.v, v[None]], axis=0)

    def __len__(self):
        return self.k.shape[0]

    def partial(self, q):
        """One query token q [H, D] -> (out [H, D], lse [H]).

        The kernel works with exp2, therefore log2(e) is folded into the
        softmax scale.
        """
        sm_scale = LOG2E / np.sqrt(q.shape[-1])
        s = np.einsum("hd,shd->hs", q, self.k) * sm_scale
        m = s.max(axis=-1, keepdims=True)
        p = np.exp2(s - m)
        z = p.sum(axis=-1, keepdims=True)
        out = np.einsum("hs,shd->hd", p / z, self.v)
        lse = (m + np.log2(z))[:, 0]
        return out, lse


def merge_states(outs, lses):
    """Combine shards: outs [N, H, D], lses [N, H] -> [H, D]."""
    top = lses.max(axis=0, keepdims=True)
    w = np.exp(lses - top)
    w = w / w.sum(axis=0, keepdims=True)
    return (outs * w[..., None]).sum(axis=0)


class SplitDecoder:
    """Round-robin placement of tokens, exact attention over all of them.

    decode(q, k, v) appends the token's k, v [H, D] to one of the shards and
    returns softmax(q.K / sqrt(D)) V over every token appended so far.
    """

    def __init__(self, n_shards, n_heads, head_dim, block=4):
        self.block = block
        self.count = 0
        self.workers = [Worker(n_heads, head_dim) for _ in range(n_shards)]

    def _owner(self):
        return self.workers[(self.count // self.block) % len(self.workers)]

    def decode(self, q, k, v):
        self._owner().append(k, v)
        self.count += 1
        answers = [w.partial(q) for w in self.workers if len(w) > 0]
        if len(answers) == 1:
            return answers[0][0]
        outs = np.stack([a[0] for a in answers])
        lses = np.stack([a[1] for a in answers])
        return merge_states(outs, lses)


def replay(n_shards, qs, ks, vs, block=4):
    """Run a whole sequence [T, H, D] through a fresh decoder."""
    dec = SplitDecoder(n_shards, qs.shape[1], qs.shape[2], block)
    return np.stack([dec.decode(q, k, v) for q, k, v in zip(qs, ks, vs)])


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 9, 2, 8)).astype(np.float32)
    print(replay(2, *x).shape)
