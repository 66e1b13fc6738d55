"""Go policy/value trunk with attention over board points (Flax).

Boards of 9x9 to 19x19 are batched on a 19x19 canvas; `on_board` marks the points that exist
(1) and the ones outside of a smaller board (0). Logits are soft-capped (cap * tanh(s / cap) as in
Gemma 2, with a much smaller cap) because attention collapsed to single points in self-play runs.
"""
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


class BoardAttention(nn.Module):
    """Self-attention between points. Points outside of the board are attended by nobody."""

    num_heads: int = 4
    head_dim: int = 16
    logit_cap: Optional[float] = 3.0

    @nn.compact
    def __call__(self, x, on_board):
        # x [B, P, C], on_board [B, P]
        c = x.shape[-1]
        qkv = nn.DenseGeneral((3, self.num_heads, self.head_dim), use_bias=False, name="qkv")(x)
        q, k, v = jnp.moveaxis(qkv, -3, 0)
        q = q * self.head_dim ** -0.5
        scores = jnp.einsum("bphd,bshd->bhps", q, k, preferred_element_type=jnp.float32)
        bias = jnp.where(on_board[:, None, None, :] > 0, 0.0, jnp.finfo(jnp.float32).min)
        scores = scores + bias
        if self.logit_cap is not None:
            scores = self.logit_cap * jnp.tanh(scores / self.logit_cap)
        probs = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
        y = jnp.einsum("bhps,bshd->bphd", probs, v)
        return nn.DenseGeneral(c, axis=(-2, -1), use_bias=False, name="proj")(y)


class BoardBlock(nn.Module):
    num_heads: int
    head_dim: int
    logit_cap: Optional[float]

    @nn.compact
    def __call__(self, x, on_board):
        x = x + BoardAttention(self.num_heads, self.head_dim, self.logit_cap)(nn.RMSNorm()(x), on_board)
        h = nn.Dense(4 * x.shape[-1])(nn.RMSNorm()(x))
        x = x + nn.Dense(x.shape[-1])(nn.gelu(h))
        return x * on_board[..., None]


class GoTrunk(nn.Module):
    planes: int = 17
    width: int = 64
    depth: int = 4
    num_heads: int = 4
    logit_cap: Optional[float] = 3.0

    @nn.compact
    def __call__(self, planes, on_board):
        """planes [B, 19, 19, planes], on_board [B, 19, 19] -> policy [B, 362], value [B]"""
        b, h, w, _ = planes.shape
        x = nn.Conv(self.width, (5, 5))(planes * on_board[..., None])
        x = x.reshape(b, h * w, self.width)
        ob = on_board.reshape(b, h * w)
        x = x + self.param("pos", nn.initializers.normal(0.02), (h * w, self.width))
        for _ in range(self.depth):
            x = BoardBlock(self.num_heads, self.width // self.num_heads, self.logit_cap)(x, ob)
        x = nn.RMSNorm()(x)
        mean = (x * ob[..., None]).sum(1) / ob.sum(1, keepdims=True)
        move = nn.Dense(1)(x)[..., 0]
        move = jnp.where(ob > 0, move, -1e9)
        passing = nn.Dense(1)(mean)
        value = jnp.tanh(nn.Dense(1)(nn.relu(nn.Dense(64)(mean))))[..., 0]
        return jnp.concatenate([move, passing], -1), value


def canvas(size, batch, full=19):
    ax = jnp.arange(full) < size
    return jnp.broadcast_to((ax[:, None] & ax[None, :]).astype(jnp.float32), (batch, full, full))


if __name__ == "__main__":
    net = GoTrunk(depth=2)
    ob = jnp.concatenate([canvas(9, 1), canvas(19, 1)])
    x = jax.random.normal(jax.random.PRNGKey(0), (2, 19, 19, 17))
    v = net.init(jax.random.PRNGKey(1), x, ob)
    print([o.shape for o in net.apply(v, x, ob)])
