"""Decision transformer: (return-to-go, state, action) triples -> next actions."""
import jax
import jax.numpy as jnp
from jax import nn, random


def dense(key, i, o):
    return {'w': random.normal(key, (i, o)) * (1 / i) ** .5, 'b': jnp.zeros((o,))}


def lin(p, x):
    return x @ p['w'] + p['b']


def ln(x):
    return nn.standardize(x, axis=-1, epsilon=1e-5)


def make_params(seed=0, state_dim=5, act_dim=2, width=24, n_layer=2, max_ep_len=50):
    ks = iter(random.split(random.PRNGKey(seed), 64))
    p = {
        'rtg': dense(next(ks), 1, width),
        'state': dense(next(ks), state_dim, width),
        'act': dense(next(ks), act_dim, width),
        'time': random.normal(next(ks), (max_ep_len, width)) * .02,
        'blocks': [],
        'head': dense(next(ks), width, act_dim),
    }
    for _ in range(n_layer):
        p['blocks'].append({'qkv': dense(next(ks), width, 3 * width), 'proj': dense(next(ks), width, width),
                            'fc': dense(next(ks), width, 4 * width), 'out': dense(next(ks), 4 * width, width)})
    return p


def causal_attn(p, x, n_head):
    b, t, c = x.shape
    q, k, v = jnp.split(lin(p['qkv'], x), 3, -1)
    q, k, v = (z.reshape(b, t, n_head, c // n_head) for z in (q, k, v))
    att = jnp.einsum('bqhd,bkhd->bhqk', q, k) / (c // n_head) ** .5
    # a token must not look at what comes after it
    mask = jnp.tril(jnp.ones((t, t)), k=1)
    att = jnp.where(mask == 0, -1e10, att)
    att = nn.softmax(att, -1)
    return lin(p['proj'], jnp.einsum('bhqk,bkhd->bqhd', att, v).reshape(b, t, c))


def decision_transformer(params, rtg, states, actions, timesteps, n_head=4):
    """rtg (B, T, 1), states (B, T, state_dim), actions (B, T, act_dim), timesteps (B, T) int -> (B, T, act_dim)"""
    te = params['time'][timesteps]
    toks = jnp.stack([lin(params['rtg'], rtg) + te, lin(params['state'], states) + te, lin(params['act'], actions) + te], 2)
    B, T = timesteps.shape
    x = ln(toks.reshape(B, 3 * T, -1))
    for blk in params['blocks']:
        x = x + causal_attn(blk, ln(x), n_head)
        x = x + lin(blk['out'], nn.gelu(lin(blk['fc'], ln(x))))
    x = ln(x).reshape(B, T, 3, -1)
    return jnp.tanh(lin(params['head'], x[:, :, 1]))       # predicted from the state token
