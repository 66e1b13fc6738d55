import flax.linen as nn
import jax
import jax.numpy as jnp


class ObjectCrossAttention(nn.Module):
    """Latents read from a padded list of detected objects (dot-product attention).

    latents: [B, M, C], objects: [B, N, E], valid: [B, N] with 1 for an object, 0 for padding.
    Padding must have no influence on the result.
    """
    features: int
    num_heads: int = 2

    @nn.compact
    def __call__(self, latents, objects, valid):
        dh = self.features // self.num_heads
        dense = lambda name: nn.DenseGeneral((self.num_heads, dh), use_bias=False, name=name)
        latents_n = nn.LayerNorm(name="ln_latent")(latents)
        objects_n = nn.LayerNorm(name="ln_object")(objects)
        q = dense("query")(latents_n)
        k = dense("key")(objects_n)
        v = dense("value")(objects_n)

        logits = jnp.einsum("bmhd,bnhd->bhmn", q, k)
        logits = logits * valid[:, None, None, :].astype(logits.dtype)
        weights = jax.nn.softmax(logits, axis=-1)
        y = jnp.einsum("bhmn,bnhd->bmhd", weights, v)
        y = nn.DenseGeneral(self.features, axis=(-2, -1), name="out")(y)
        return latents + y


class SceneReader(nn.Module):
    slots: int
    features: int

    @nn.compact
    def __call__(self, objects, valid):
        z = self.param("latents", nn.initializers.normal(0.02), (self.slots, self.features))
        z = jnp.broadcast_to(z, (objects.shape[0],) + z.shape)
        z = ObjectCrossAttention(self.features)(z, objects, valid)
        return z + nn.Dense(self.features)(nn.gelu(nn.Dense(2 * self.features)(z)))
