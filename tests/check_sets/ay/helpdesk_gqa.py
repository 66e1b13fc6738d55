# helpdesk_gqa.py
# Reply model of the help desk bot. Flax linen, grouped-query attention.
# Conversations are LEFT padded (see collate): the newest turn is always at the end.
import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(unsafe_hash=True)
class BotConfig:
    vocab: int = 32000
    width: int = 256
    n_q: int = 8          # query heads
    n_kv: int = 2         # key/value heads; n_q // n_kv consecutive query heads share one
    depth: int = 4
    max_turn_tokens: int = 512
    pad_id: int = 0


def collate(turn_ids, cfg):
    n = max(len(t) for t in turn_ids)
    ids = np.full((len(turn_ids), n), cfg.pad_id, np.int32)
    for row, t in enumerate(turn_ids):
        ids[row, n - len(t):] = t
    return ids


def positions_of(real):
    """Position inside the conversation, padding not counted. real [B, T] bool."""
    return jnp.maximum(jnp.cumsum(real, axis=-1) - 1, 0)


def rope_half(x, pos, base=10000.0):
    # x [B, T, ..., D] with pairs (i, i + D/2)
    d = x.shape[-1]
    inv = 1.0 / base ** (jnp.arange(d // 2) * 2.0 / d)
    ang = pos[..., None] * inv
    ang = ang.reshape(ang.shape[:2] + (1,) * (x.ndim - 3) + ang.shape[2:])
    lo, hi = x[..., : d // 2], x[..., d // 2:]
    return jnp.concatenate([lo * jnp.cos(ang) - hi * jnp.sin(ang),
                            hi * jnp.cos(ang) + lo * jnp.sin(ang)], -1)


class GroupedAttention(nn.Module):
    cfg: BotConfig

    @nn.compact
    def __call__(self, x, real):
        """x [B, T, C]; real [B, T] True for tokens, False for padding. Causal."""
        c = self.cfg
        B, T, C = x.shape
        G = c.n_q // c.n_kv
        D = C // c.n_q
        q = nn.Dense(C, use_bias=False, name="q")(x).reshape(B, T, c.n_kv, G, D)
        k = nn.Dense(c.n_kv * D, use_bias=False, name="k")(x).reshape(B, T, c.n_kv, D)
        v = nn.Dense(c.n_kv * D, use_bias=False, name="v")(x).reshape(B, T, c.n_kv, D)

        pos = positions_of(real)
        q, k = rope_half(q, pos), rope_half(k, pos)

        s = jnp.einsum("btngd,bsnd->bngts", q, k) * D ** -0.5
        see = jnp.tril(jnp.ones((T, T), bool))[None] & real[:, None, :]
        see = see[:, None, None]
        s = jnp.where(see, s.astype(jnp.float32), -1e30)
        p = jnp.where(see, jax.nn.softmax(s, axis=-1), 0.0).astype(v.dtype)
        y = jnp.einsum("bngts,bsnd->btngd", p, v)
        return nn.Dense(C, use_bias=False, name="o")(y.reshape(B, T, C))


class Block(nn.Module):
    cfg: BotConfig

    @nn.compact
    def __call__(self, x, real):
        x = x + GroupedAttention(self.cfg, name="attn")(nn.RMSNorm()(x), real)
        h = nn.RMSNorm()(x)
        g = nn.Dense(3 * self.cfg.width, use_bias=False, name="gate")(h)
        u = nn.Dense(3 * self.cfg.width, use_bias=False, name="up")(h)
        return x + nn.Dense(self.cfg.width, use_bias=False, name="down")(nn.silu(g) * u)


class ReplyModel(nn.Module):
    cfg: BotConfig

    @nn.compact
    def __call__(self, ids):
        emb = nn.Embed(self.cfg.vocab, self.cfg.width)
        real = ids != self.cfg.pad_id
        x = emb(ids)
        for i in range(self.cfg.depth):
            x = Block(self.cfg, name=f"block_{i}")(x, real)
        return emb.attend(nn.RMSNorm(name="final")(x))


def reply_loss(logits, ids, from_agent):
    """from_agent [B, T]: 1 where the token was written by the agent side."""
    logp = jax.nn.log_softmax(logits[:, :-1].astype(jnp.float32))
    nll = -jnp.take_along_axis(logp, ids[:, 1:, None], axis=-1)[..., 0]
    w = from_agent[:, 1:]
    return (nll * w).sum() / jnp.maximum(w.sum(), 1)


if __name__ == "__main__":
    cfg = BotConfig(vocab=100, width=32, depth=2)
    ids = collate([[5, 6, 7], [8, 9, 10, 11, 12]], cfg)
    net = ReplyModel(cfg)
    params = net.init(jax.random.PRNGKey(0), ids)
    print(net.apply(params, ids).shape)
