"""Chess policy net, Flax. Board tokens attend to each other; empty squares can be hidden."""
import flax.linen as nn
import jax
import jax.numpy as jnp

SQUARES = 64


class BoardAttention(nn.Module):
    """Self-attention over squares with tanh-capped logits.

    visible: (B, S) bool, True for the squares that may be looked at. Hidden
    squares must receive no weight at all.
    """
    heads: int = 4
    cap: float = 4.0

    @nn.compact
    def __call__(self, x, visible=None):
        b, s, e = x.shape
        d = e // self.heads
        proj = lambda n: nn.Dense(e, use_bias=False, name=n)(x).reshape(b, s, self.heads, d)
        q, k, v = proj("query"), proj("key"), proj("value")
        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(d)
        if visible is not None:
            bias = jnp.where(visible, 0.0, -jnp.inf)[:, None, None, :]
            logits = logits + bias
        logits = self.cap * jnp.tanh(logits / self.cap)
        w = nn.softmax(logits, axis=-1)
        out = jnp.einsum("bhqk,bkhd->bqhd", w, v).reshape(b, s, e)
        return nn.Dense(e, name="out")(out)


class PolicyBlock(nn.Module):
    heads: int = 4

    @nn.compact
    def __call__(self, x, visible=None):
        x = x + BoardAttention(self.heads)(nn.LayerNorm()(x), visible)
        h = nn.Dense(2 * x.shape[-1])(nn.LayerNorm()(x))
        return x + nn.Dense(x.shape[-1])(nn.gelu(h))


class ChessNet(nn.Module):
    width: int = 32
    depth: int = 2

    @nn.compact
    def __call__(self, board):
        """board (B, 64) int piece codes, 0 = empty -> move logits (B, 64, 64)"""
        x = nn.Embed(13, self.width)(board)
        x = x + self.param("pos", nn.initializers.normal(0.02), (SQUARES, self.width))
        for _ in range(self.depth):
            x = PolicyBlock()(x, board != 0)
        return jnp.einsum("bie,bje->bij", nn.Dense(16)(x), nn.Dense(16)(x))


if __name__ == "__main__":
    net = ChessNet()
    bd = jnp.zeros((1, 64), int).at[0, :16].set(1)
    print(net.apply(net.init(jax.random.PRNGKey(0), bd), bd).shape)
