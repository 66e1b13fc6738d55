"""Local attention block in the manner of Gemma 2: sliding window, logit soft-capping."""
import flax.linen as nn
import jax
import jax.numpy as jnp


def softcap(x, cap):
    return cap * jnp.tanh(x / cap)


class LocalAttention(nn.Module):
    """Causal sliding-window attention.

    A token attends to `window` tokens in total, i.e. itself and the window - 1 tokens before it.
    Logits are capped smoothly to (-logit_cap, logit_cap).

    x: (batch, time, features)
    """
    num_heads: int = 4
    head_dim: int = 8
    window: int = 4
    logit_cap: float = 5.0

    @nn.compact
    def __call__(self, x):
        T, features = x.shape[1], x.shape[-1]
        q = nn.DenseGeneral((self.num_heads, self.head_dim), use_bias=False, name="q_proj")(x)
        k = nn.DenseGeneral((self.num_heads, self.head_dim), use_bias=False, name="k_proj")(x)
        v = nn.DenseGeneral((self.num_heads, self.head_dim), use_bias=False, name="v_proj")(x)

        logits = jnp.einsum("bthd,bshd->bhts", q * self.head_dim**-0.5, k)
        pos = jnp.arange(T)
        distance = pos[:, None] - pos[None, :]
        attend = (distance >= 0) & (distance <= self.window)
        logits = jnp.where(attend, logits, jnp.finfo(logits.dtype).min)
        logits = softcap(logits, self.logit_cap)
        probs = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(x.dtype)

        out = jnp.einsum("bhts,bshd->bthd", probs, v)
        return nn.DenseGeneral(features, axis=(-2, -1), use_bias=False, name="o_proj")(out)


class Block(nn.Module):
    hidden: int = 64

    @nn.compact
    def __call__(self, x):
        y = LocalAttention(name="attn")(nn.RMSNorm(name="pre_attn")(x))
        x = x + nn.RMSNorm(name="post_attn")(y)
        y = nn.RMSNorm(name="pre_ffw")(x)
        gate = nn.gelu(nn.Dense(self.hidden, use_bias=False)(y))
        y = nn.Dense(x.shape[-1], use_bias=False)(gate * nn.Dense(self.hidden, use_bias=False)(y))
        return x + nn.RMSNorm(name="post_ffw")(y)
