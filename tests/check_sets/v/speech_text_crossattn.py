"""Two towers, one for speech frames and one for text: the text reads the speech, then both are pooled and compared."""
import jax
import jax.numpy as jnp


class Dense:
    def __init__(self, key, i, o):
        self.params = {"w": jax.random.normal(key, (i, o)) * i**-0.5, "b": jnp.zeros((o,))}

    @staticmethod
    def run(p, x):
        return jnp.dot(x, p["w"]) + p["b"]


def length_mask(lengths, size):
    """True at the frames that exist: [batch, size]"""
    return jnp.arange(size)[None, :] < lengths[:, None]


def cross_attention(params, text, speech, speech_lengths, num_heads):
    B, L, D = text.shape
    S = speech.shape[1]
    hd = D // num_heads
    q = Dense.run(params["q"], text).reshape(B, L, num_heads, hd).transpose(0, 2, 1, 3)
    k = Dense.run(params["k"], speech).reshape(B, S, num_heads, hd).transpose(0, 2, 1, 3)
    v = Dense.run(params["v"], speech).reshape(B, S, num_heads, hd).transpose(0, 2, 1, 3)
    score = jnp.matmul(q, jnp.swapaxes(k, -1, -2)) / jnp.sqrt(jnp.float32(hd))
    there = length_mask(speech_lengths, S)[:, None, None, :]
    score = jnp.where(there, -1e9, score)
    weight = jax.nn.softmax(score, axis=-1)
    ctx = jnp.matmul(weight, v).transpose(0, 2, 1, 3).reshape(B, L, D)
    return Dense.run(params["o"], ctx), weight


def masked_mean(x, lengths):
    m = length_mask(lengths, x.shape[1])[..., None]
    return (x * m).sum(1) / m.sum(1)


def make(key, d_text, d_speech):
    ks = jax.random.split(key, 6)
    dims = {"q": (d_text, d_text), "k": (d_speech, d_text), "v": (d_speech, d_text), "o": (d_text, d_text),
            "text": (d_text, 8), "speech": (d_speech, 8)}
    return {name: Dense(k, *dims[name]).params for k, name in zip(ks, dims)}


def similarity(params, text, text_lengths, speech, speech_lengths, num_heads=4):
    """text [B, L, d_text], speech [B, S, d_speech] -> cosine of each pair [B]"""
    ctx, _ = cross_attention(params, text, speech, speech_lengths, num_heads)
    a = Dense.run(params["text"], masked_mean(text + ctx, text_lengths))
    b = Dense.run(params["speech"], masked_mean(speech, speech_lengths))
    return (a * b).sum(-1) / (jnp.linalg.norm(a, axis=-1) * jnp.linalg.norm(b, axis=-1))


if __name__ == "__main__":
    k0, k1, k2 = jax.random.split(jax.random.PRNGKey(3), 3)
    params = make(k0, 16, 12)
    text, speech = jax.random.normal(k1, (3, 5, 16)), jax.random.normal(k2, (3, 14, 12))
    print(similarity(params, text, jnp.array([5, 3, 4]), speech, jnp.array([14, 6, 9])))
