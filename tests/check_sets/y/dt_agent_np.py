"""Decision-transformer policy for toy control tasks, NumPy inference for the robot.

A trajectory (R_t, s_t, a_t) becomes the token row  R_0 s_0 a_0 R_1 s_1 a_1 ...
The action at t is read from the token of s_t, so it must not depend on a_t.
"""
import numpy as np


def softmax(x, axis=-1):
    x = x - x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


class Dense:
    def __init__(self, rng, n_in, n_out):
        self.w = rng.standard_normal((n_in, n_out)) / np.sqrt(n_in)
        self.b = np.zeros(n_out)

    def __call__(self, x):
        return x @ self.w + self.b


class CausalSelfAttention:
    def __init__(self, rng, d, n_heads):
        self.n_heads = n_heads
        self.qkv = Dense(rng, d, 3 * d)
        self.proj = Dense(rng, d, d)

    def __call__(self, x, attend=None):
        """x (B,L,d); attend (B,L) 1 = token exists"""
        B, L, d = x.shape
        q, k, v = self.qkv(x).reshape(B, L, 3, self.n_heads, -1).transpose(2, 0, 3, 1, 4)
        logits = np.einsum('bhid,bhjd->bhij', q, k) / np.sqrt(q.shape[-1])
        allowed = np.tri(L, L, 1, dtype=bool)[None, None]
        if attend is not None:
            allowed = allowed & (np.asarray(attend)[:, None, None, :] > 0)
        logits = np.where(allowed, logits, -1e9)
        y = np.einsum('bhij,bhjd->bihd', softmax(logits), v)
        return self.proj(y.reshape(B, L, d))


class Block:
    def __init__(self, rng, d, n_heads):
        self.att = CausalSelfAttention(rng, d, n_heads)
        self.up, self.down = Dense(rng, d, 4 * d), Dense(rng, 4 * d, d)

    @staticmethod
    def norm(x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def __call__(self, x, attend=None):
        x = x + self.att(self.norm(x), attend)
        return x + self.down(np.maximum(self.up(self.norm(x)), 0))


class DecisionTransformer:
    def __init__(self, state_dim=5, act_dim=2, d=24, n_heads=3, n_layers=2, max_ep=50, seed=0):
        rng = np.random.default_rng(seed)
        self.embed_r, self.embed_s, self.embed_a = Dense(rng, 1, d), Dense(rng, state_dim, d), Dense(rng, act_dim, d)
        self.embed_t = rng.standard_normal((max_ep, d)) * 0.3
        self.blocks = [Block(rng, d, n_heads) for _ in range(n_layers)]
        self.head = Dense(rng, d, act_dim)

    def forward(self, states, actions, returns_to_go, timesteps, attention_mask=None):
        """(B,T,ds), (B,T,da), (B,T,1), (B,T) -> predicted actions (B,T,da)"""
        B, T = states.shape[:2]
        t = self.embed_t[timesteps]
        toks = np.stack([self.embed_r(returns_to_go) + t, self.embed_s(states) + t, self.embed_a(actions) + t], axis=2)
        x = toks.reshape(B, 3 * T, -1)
        m = None if attention_mask is None else np.repeat(attention_mask, 3, axis=1)
        for blk in self.blocks:
            x = blk(x, m)
        x = x.reshape(B, T, 3, -1)
        return np.tanh(self.head(x[:, :, 1]))

    __call__ = forward

    def get_action(self, states, actions, rtg, timesteps):
        return self.forward(states[None], actions[None], rtg[None], timesteps[None])[0, -1]
