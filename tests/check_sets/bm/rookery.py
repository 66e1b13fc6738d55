# rookery: policy/value net for chess, 64 squares = 64 tokens (Flax NNX).
#
# "Smolgen" as in Leela: the whole position is squeezed into a small vector, from
# which 64x64 extra logits per head are generated.  They are ADDED to q.k/sqrt(d).
# No mask: every square may look at every square.

import jax
import jax.numpy as jnp
from flax import nnx

PIECES = "PNBRQKpnbrqk"


def planes(fen: str) -> jnp.ndarray:
    """First field of a FEN -> [64, 12], a8 first."""
    rows = fen.split()[0].split("/")
    out = []
    for row in rows:
        for ch in row:
            if ch.isdigit():
                out += [[0.0] * 12] * int(ch)
            else:
                out.append([float(ch == p) for p in PIECES])
    return jnp.array(out)


class Smolgen(nnx.Module):
    def __init__(self, d, heads, *, per_square=4, hidden=32, gen=16, shared, rngs):
        self.heads, self.gen = heads, gen
        self.compress = nnx.Linear(d, per_square, use_bias=False, rngs=rngs)
        self.d1 = nnx.Linear(64 * per_square, hidden, rngs=rngs)
        self.n1 = nnx.LayerNorm(hidden, rngs=rngs)
        self.d2 = nnx.Linear(hidden, heads * gen, rngs=rngs)
        self.n2 = nnx.LayerNorm(heads * gen, rngs=rngs)
        self.shared = shared           # gen -> 64*64, one matrix for all layers

    def __call__(self, x):
        b = x.shape[0]
        z = self.compress(x).reshape(b, -1)
        z = self.n1(nnx.swish(self.d1(z)))
        z = self.n2(nnx.swish(self.d2(z))).reshape(b, self.heads, self.gen)
        return self.shared(z).reshape(b, self.heads, 64, 64)


class SquareAttention(nnx.Module):
    def __init__(self, d, heads, *, shared, rngs):
        assert d % heads == 0
        self.heads = heads
        self.hd = d // heads
        self.qkv = nnx.Linear(d, 3 * d, rngs=rngs)      # columns: all q, all k, all v
        self.out = nnx.Linear(d, d, rngs=rngs)
        self.smol = Smolgen(d, heads, shared=shared, rngs=rngs)

    def __call__(self, x):
        """x [b, 64, d] -> [b, 64, d]"""
        b, n, d = x.shape
        q, k, v = jnp.split(self.qkv(x), 3, axis=-1)
        q, k, v = (t.reshape(b, n, self.heads, self.hd).swapaxes(1, 2) for t in (q, k, v))
        s = q @ k.swapaxes(-1, -2) * self.hd ** -0.5
        s = s + self.smol(x)
        w = nnx.softmax(s, axis=-1)
        return self.out((w @ v).swapaxes(1, 2).reshape(b, n, d))


class Encoder(nnx.Module):
    def __init__(self, d, heads, *, shared, alpha, rngs):
        self.att = SquareAttention(d, heads, shared=shared, rngs=rngs)
        self.f1, self.f2 = nnx.Linear(d, 2 * d, rngs=rngs), nnx.Linear(2 * d, d, rngs=rngs)
        self.a, self.b = nnx.LayerNorm(d, rngs=rngs), nnx.LayerNorm(d, rngs=rngs)
        self.alpha = alpha

    def __call__(self, x):
        x = self.a(x * self.alpha + self.att(x))        # deepnorm residual
        return self.b(x * self.alpha + self.f2(nnx.relu(self.f1(x)) ** 2))


class Rookery(nnx.Module):
    def __init__(self, d=32, heads=4, depth=2, *, rngs):
        self.embed = nnx.Linear(12 + 64, d, rngs=rngs)
        shared = nnx.Linear(16, 64 * 64, use_bias=False, rngs=rngs)
        alpha = (2 * depth) ** 0.25
        self.blocks = nnx.List([Encoder(d, heads, shared=shared, alpha=alpha, rngs=rngs) for _ in range(depth)])
        self.frm, self.to = nnx.Linear(d, d, rngs=rngs), nnx.Linear(d, d, rngs=rngs)
        self.val = nnx.Linear(d, 3, rngs=rngs)

    def __call__(self, board):
        """board [b, 64, 12] -> (move logits [b, 64, 64] from/to, win-draw-loss [b, 3])"""
        b = board.shape[0]
        x = jnp.concatenate([board, jnp.broadcast_to(jnp.eye(64), (b, 64, 64))], -1)
        x = nnx.relu(self.embed(x))
        for blk in self.blocks:
            x = blk(x)
        policy = self.frm(x) @ self.to(x).swapaxes(-1, -2) / x.shape[-1] ** 0.5
        return policy, self.val(x.mean(1))


if __name__ == "__main__":
    net = Rookery(rngs=nnx.Rngs(0))
    start = planes("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1")
    p, v = net(start[None])
    print(p.shape, v)
