import jax
import jax.numpy as jnp
from flax import linen as nn
from typing import Optional, Tuple

Past = Tuple[jax.Array, jax.Array]


class PastAwareAttention(nn.Module):
    """Decoder self attention. `past` holds k and v of what was already generated
    ([B, P, H, D] each); x are the next T tokens. P + T positions at most are visible,
    never one that is later than the query's."""

    num_heads: int
    head_dim: int
    dtype: jnp.dtype = jnp.float32

    def setup(self):
        proj = lambda: nn.DenseGeneral((self.num_heads, self.head_dim), use_bias=False, dtype=self.dtype)
        self.q, self.k, self.v = proj(), proj(), proj()

    @nn.compact
    def __call__(self, x, past: Optional[Past] = None):
        query, key, value = self.q(x), self.k(x), self.v(x)
        if past is not None:
            key = jnp.concatenate([past[0], key], axis=1)
            value = jnp.concatenate([past[1], value], axis=1)

        q_len, kv_len = query.shape[1], key.shape[1]
        causal = jnp.tril(jnp.ones((q_len, kv_len), dtype=bool))
        logits = jnp.einsum("bqhd,bkhd->bhqk", query, key) / jnp.sqrt(self.head_dim).astype(self.dtype)
        logits = jnp.where(causal[None, None], logits, jnp.finfo(logits.dtype).min)
        probs = jax.nn.softmax(logits.astype(jnp.float32)).astype(self.dtype)
        y = jnp.einsum("bhqk,bkhd->bqhd", probs, value)
        y = nn.DenseGeneral(x.shape[-1], axis=(-2, -1), use_bias=False, name="out")(y)
        return y, (key, value)
