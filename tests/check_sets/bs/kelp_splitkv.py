# Split-KV decoding for the kelp-farm assistant (reference implementation of our Triton kernel).
#
# One query token per request; its key/value history is cut into `splits` equal pieces, each piece is
# reduced by its own program, then a second program combines the pieces.  As in the kernel, exponentials
# are taken in base two because exp2 is one instruction:
#       exp(x) == exp2(x * LOG2E)
import torch

LOG2E = 1.4426950408889634


def _reduce_piece(q, k, v, valid, scale):
    """q [B,H,D], k/v [B,H,N,D], valid [B,N] -> (o [B,H,D] normalised, lse [B,H])."""
    s = torch.einsum("bhd,bhnd->bhn", q, k) * (scale * LOG2E)
    s = s.masked_fill(~valid[:, None], float("-inf"))
    m = s.amax(-1, keepdim=True)
    m_safe = torch.where(m.isinf(), torch.zeros_like(m), m)
    p = torch.exp2(s - m_safe)
    l = p.sum(-1, keepdim=True)
    o = torch.einsum("bhn,bhnd->bhd", p, v) / l.clamp(min=1e-30)
    lse = (m_safe + torch.log2(l)).squeeze(-1)
    return o, lse


def _combine(o, lse):
    """o [S,B,H,D], lse [S,B,H]; empty pieces carry lse = -inf."""
    top = lse.amax(0)
    w = torch.exp(lse - top)
    w = w / w.sum(0)
    return (w[..., None] * o).sum(0)


def flash_decode(q, k, v, lengths, splits=4, scale=None):
    """q [B,H,D]; k, v [B,H,N,D]; lengths [B] >= 1: how much of the history is filled.

    The result does not depend on `splits`.
    """
    N = k.shape[2]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    size = -(-N // splits)
    valid = torch.arange(N, device=q.device)[None] < lengths[:, None]
    pieces = []
    for a in range(0, N, size):
        b = min(a + size, N)
        pieces.append(_reduce_piece(q.float(), k[:, :, a:b].float(), v[:, :, a:b].float(), valid[:, a:b], scale))
    o = torch.stack([p[0] for p in pieces])
    lse = torch.stack([p[1] for p in pieces])
    return _combine(o, lse).to(q.dtype)


class RequestPool:
    """Fixed slots; every slot holds the history of one diver's conversation."""

    def __init__(self, slots, heads, dim, capacity, splits=4):
        self.k = torch.zeros(slots, heads, capacity, dim)
        self.v = torch.zeros_like(self.k)
        self.n = torch.zeros(slots, dtype=torch.long)
        self.splits = splits

    def release(self, slot):
        self.n[slot] = 0

    def prefill(self, slot, k, v):
        t = k.shape[1]
        self.k[slot, :, :t] = k
        self.v[slot, :, :t] = v
        self.n[slot] = t

    def decode(self, q, k, v):
        if (self.n >= self.k.shape[2]).any():
            raise RuntimeError("history full")
        rows = torch.arange(len(self.n))
        self.k[rows, :, self.n] = k
        self.v[rows, :, self.n] = v
        self.n += 1
        return flash_decode(q, self.k, self.v, self.n, self.splits)


if __name__ == "__main__":
    torch.manual_seed(0)
    pool = RequestPool(2, 2, 8, 16)
    pool.prefill(0, torch.randn(2, 11, 8), torch.randn(2, 11, 8))
    pool.prefill(1, torch.randn(2, 3, 8), torch.randn(2, 3, 8))
    for _ in range(3):
        print(pool.decode(*torch.randn(3, 2, 2, 8)).shape)
