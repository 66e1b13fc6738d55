"""Port of the Grok-1 attention to a few lines of JAX. Checkpoint trees are nested dicts."""
import jax
import jax.numpy as jnp
from dataclasses import dataclass


@dataclass(frozen=True)
class Cfg:
    q_heads: int = 4
    kv_heads: int = 2
    key_size: int = 8
    attn_output_multiplier: float = 8 ** -0.5   # = 1/sqrt(key_size)
    max_attn_val: float = 3.0                   # "mini" preset (30.0 in the big model)


def init_tree(rng, width, cfg=Cfg()):
    ks = jax.random.split(rng, 4)
    def lin(k, a, b):
        return {"w": jax.random.normal(k, (a, b)) / jnp.sqrt(a)}
    return {
        "query": lin(ks[0], width, cfg.q_heads * cfg.key_size),
        "key": lin(ks[1], width, cfg.kv_heads * cfg.key_size),
        "value": lin(ks[2], width, cfg.kv_heads * cfg.key_size),
        "linear": lin(ks[3], cfg.q_heads * cfg.key_size, width),
    }


def causal_and_padding(tokens, pad_id=0):
    """tokens [B, T] -> [B, 1, 1, T, T] with 1 where a key takes part."""
    t = tokens.shape[1]
    m = jnp.tril(jnp.ones((1, 1, 1, t, t)))
    return m * (tokens != pad_id)[:, None, None, None, :]


def mha(tree, x, mask, cfg=Cfg()):
    """x [B, T, W]; mask as from causal_and_padding; keys with mask 0 get no weight."""
    b, t, _ = x.shape
    heads = lambda name, n: (x @ tree[name]["w"]).reshape(b, t, n, cfg.key_size)
    q, k, v = heads("query", cfg.q_heads), heads("key", cfg.kv_heads), heads("value", cfg.kv_heads)
    q = q.reshape(b, t, cfg.kv_heads, cfg.q_heads // cfg.kv_heads, cfg.key_size)
    logits = jnp.einsum("btkgd,bskd->bkgts", q, k).astype(jnp.float32)
    logits = logits * cfg.attn_output_multiplier
    logits = jnp.where(mask > 0, logits, -1e30)
    logits = cfg.max_attn_val * jnp.tanh(logits / cfg.max_attn_val)
    w = jax.nn.softmax(logits, axis=-1).astype(x.dtype)
    y = jnp.einsum("bkgts,bskd->btkgd", w, v).reshape(b, t, -1)
    return y @ tree["linear"]["w"]


def rms_norm(x, scale, eps=1e-5):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps) * scale


def decoder_layer(tree, x, mask, cfg=Cfg()):
    h = mha(tree["mha"], rms_norm(x, tree["pre"]), mask, cfg)
    return x + rms_norm(h, tree["post"])


if __name__ == "__main__":
    tree = init_tree(jax.random.PRNGKey(0), 32)
    toks = jnp.array([[5, 3, 8, 0, 0]])
    print(mha(tree, jnp.ones((1, 5, 32)), causal_and_padding(toks)).shape)
