"""Perceiver resampler for multi-camera robot policies (Flax linen).

A fixed number of latents reads a ragged set of image tokens.  As in Flamingo,
keys and values are made from the concatenation [tokens ; latents], so even a
robot without any working camera has something to read.

`padding` follows the PyTorch habit: True = this token is padding.
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


def masks_from_cameras(alive, tokens_per_camera):
    """alive bool [B, cams] -> padding bool [B, cams * tokens_per_camera]."""
    return jnp.repeat(~alive, tokens_per_camera, axis=1)


class ResamplerAttention(nn.Module):
    heads: int = 4
    head_dim: int = 8

    @nn.compact
    def __call__(self, tokens, latents, padding=None):
        b, m, c = latents.shape
        tokens = nn.LayerNorm(name="norm_media")(tokens)
        latents = nn.LayerNorm(name="norm_latents")(latents)
        inner = self.heads * self.head_dim
        q = nn.Dense(inner, use_bias=False, name="to_q")(latents)
        both = jnp.concatenate([tokens, latents], axis=1)
        kv = nn.Dense(2 * inner, use_bias=False, name="to_kv")(both)
        k, v = jnp.split(kv, 2, axis=-1)
        heads = lambda t: t.reshape(b, -1, self.heads, self.head_dim)
        q, k, v = heads(q), heads(k), heads(v)
        mask = None
        if padding is not None:
            own = jnp.zeros((b, m), dtype=bool)
            seen = ~jnp.concatenate([padding, own], axis=1)
            mask = seen[:, None, None, :]
        y = nn.dot_product_attention(q, k, v, mask=mask)
        return nn.Dense(c, use_bias=False, name="to_out")(y.reshape(b, m, inner))


class Resampler(nn.Module):
    n_latents: int = 6
    depth: int = 2

    @nn.compact
    def __call__(self, tokens, padding=None):
        """tokens [B, N, C] -> [B, n_latents, C]"""
        b, _, c = tokens.shape
        lat = self.param("latents", nn.initializers.normal(1.0), (self.n_latents, c))
        x = jnp.broadcast_to(lat, (b,) + lat.shape)
        for i in range(self.depth):
            x = x + ResamplerAttention(name=f"attn_{i}")(tokens, x, padding)
            h = nn.Dense(2 * c)(nn.LayerNorm()(x))
            x = x + nn.Dense(c)(nn.gelu(h))
        return nn.LayerNorm()(x)


class Policy(nn.Module):
    actions: int = 7
    patches: int = 9

    @nn.compact
    def __call__(self, frames, alive):
        """frames [B, cams, patches, C]; alive bool [B, cams] -> [B, actions]"""
        b, cams, p, c = frames.shape
        cam_emb = self.param("cam", nn.initializers.normal(0.02), (cams, 1, c))
        tok = (frames + cam_emb).reshape(b, cams * p, c)
        z = Resampler()(tok, masks_from_cameras(alive, p))
        return jnp.tanh(nn.Dense(self.actions)(z.mean(1)))


if __name__ == "__main__":
    net = Policy()
    f, a = jnp.ones((2, 3, 9, 16)), jnp.array([[True, True, False], [False, False, False]])
    ps = net.init(jax.random.PRNGKey(0), f, a)
    print(net.apply(ps, f, a).shape)
