"""Relative self-attention of the Music Transformer (Huang et al. 2018) in JAX."""
import jax
import jax.numpy as jnp

# event vocabulary of the MIDI encoding
NOTE_ON, NOTE_OFF, SHIFT, VELOCITY = 0, 128, 256, 356
VOCAB = 388


def describe(ev):
    if ev < NOTE_OFF:
        return f"on {ev}"
    if ev < SHIFT:
        return f"off {ev - NOTE_OFF}"
    if ev < VELOCITY:
        return f"wait {(ev - SHIFT + 1) * 10} ms"
    return f"vel {(ev - VELOCITY) * 4}"


def glorot(key, *shape):
    return jax.random.normal(key, shape) * (2.0 / (shape[0] + shape[-1])) ** 0.5


def init_layer(key, d_model, n_heads, max_len):
    ks = jax.random.split(key, 7)
    dh = d_model // n_heads
    return dict(
        wq=glorot(ks[0], d_model, d_model), wk=glorot(ks[1], d_model, d_model),
        wv=glorot(ks[2], d_model, d_model), wo=glorot(ks[3], d_model, d_model),
        # row r holds the embedding of relative distance r - (max_len - 1), i.e. the last row is 0
        rel=jax.random.normal(ks[4], (n_heads, max_len, dh)) * 0.1,
        ff1=glorot(ks[5], d_model, 4 * d_model), ff2=glorot(ks[6], 4 * d_model, d_model),
    )


def skew(qe):
    """[B, H, L, L] indexed by distance -> indexed by key; the upper triangle is junk."""
    b, h, l, _ = qe.shape
    x = jnp.pad(qe, ((0, 0), (0, 0), (0, 0), (1, 0)))
    return x.reshape(b, h, l + 1, l)[:, :, 1:, :]


def relative_attention(p, x, n_heads, pad_mask=None):
    """Causal attention with S_rel.  pad_mask [B, L]: True where the event is padding
    (padding only stands at the end of a piece)."""
    B, L, D = x.shape
    dh = D // n_heads

    def split(y):
        return y.reshape(B, L, n_heads, dh).transpose(0, 2, 1, 3)

    q, k, v = split(x @ p["wq"]), split(x @ p["wk"]), split(x @ p["wv"])
    e = p["rel"][:, p["rel"].shape[1] - L:]
    s_rel = skew(jnp.einsum("bhld,hrd->bhlr", q, e))
    logits = (q @ k.swapaxes(-1, -2) + s_rel) * dh ** -0.5
    blocked = jnp.triu(jnp.ones((L, L), bool), 1)[None, None]
    if pad_mask is not None:
        blocked = blocked | pad_mask[:, None, None, :]
    logits = jnp.where(blocked, -1e9, logits)
    w = jax.nn.softmax(logits)
    y = (w @ v).transpose(0, 2, 1, 3).reshape(B, L, D)
    return y @ p["wo"]


def norm(x):
    return (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-6)


def decoder(params, events, n_heads, pad_id=None):
    x = params["emb"][events]
    mask = None if pad_id is None else events == pad_id
    for p in params["layers"]:
        x = norm(x + relative_attention(p, x, n_heads, mask))
        x = norm(x + jax.nn.relu(x @ p["ff1"]) @ p["ff2"])
    return x @ params["emb"].T


def nll(params, events, n_heads):
    logp = jax.nn.log_softmax(decoder(params, events[:, :-1], n_heads))
    return -jnp.take_along_axis(logp, events[:, 1:, None], -1).mean()
