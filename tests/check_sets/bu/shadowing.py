"""Shadowing coach: the learner speaks half a second behind the teacher.

Learner frames (queries) look at teacher frames (keys) at most `reach` frames
away on either side: |i - j| <= reach.  Queries and keys are L2-normalised per
head and multiplied with a learned temperature, which takes the place of
1/sqrt(d) (Henry et al. 2020).
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


def unit(x, eps=1e-6):
    return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), eps)


def nearby(n_learner, n_teacher, reach):
    i = jnp.arange(n_learner)[:, None]
    j = jnp.arange(n_teacher)[None, :]
    return jnp.abs(i - j) <= reach


class EchoAttention(nn.Module):
    """speech: [B, Lq, C], model: [B, Lk, C], voiced: [B, Lk] (1 = frame counts, 0 = silence)."""
    heads: int = 2
    head_dim: int = 8
    reach: int = 5

    @nn.compact
    def __call__(self, speech, model, voiced=None):
        shape = (self.heads, self.head_dim)
        q = unit(nn.DenseGeneral(shape, use_bias=False, name="ask")(speech))
        k = unit(nn.DenseGeneral(shape, use_bias=False, name="key")(model))
        v = nn.DenseGeneral(shape, use_bias=False, name="say")(model)
        log_t = self.param("log_temperature", nn.initializers.constant(jnp.log(10.0)), (self.heads,))

        score = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32)
        score = score * jnp.exp(log_t)[None, :, None, None]
        allowed = nearby(speech.shape[1], model.shape[1], self.reach)[None, None]
        if voiced is not None:
            allowed = allowed & (voiced[:, None, None, :] > 0)
        score = jnp.where(allowed, score, -jnp.inf)
        w = jax.nn.softmax(score, axis=-1).astype(v.dtype)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", w, v)
        return nn.DenseGeneral(speech.shape[-1], axis=(-2, -1), name="out")(mixed)


class Coach(nn.Module):
    grades: int = 5
    width: int = 16

    @nn.compact
    def __call__(self, speech, model, voiced=None):
        a = nn.Dense(self.width)(speech)
        b = nn.Dense(self.width)(model)
        h = nn.LayerNorm()(a + EchoAttention()(a, b, voiced))
        h = nn.gelu(nn.Dense(2 * self.width)(h))
        return nn.Dense(self.grades)(h.mean(axis=1))


def demo():
    rng = jax.random.key(5)
    s = jax.random.normal(rng, (2, 7, 13))
    m = jax.random.normal(rng, (2, 9, 13))
    net = Coach()
    return net.apply(net.init(rng, s, m), s, m)


if __name__ == "__main__":
    print(demo().shape)
