"""End-To-End Memory Networks (Sukhbaatar et al., 2015), forward pass in NumPy.

Loads the arrays exported from my Lua/Torch run on bAbI task 2 and answers one
story at a time. Adjacent weight tying: C of hop k is A of hop k+1, and W^T = C
of the last hop. Memories are summed word vectors with position encoding, plus
a temporal vector indexed by the age of the sentence (0 = newest).
"""
import numpy as np

PAD = 0


def position_encoding(n_words, dim):
    j = np.arange(1, n_words + 1)[:, None]
    k = np.arange(1, dim + 1)[None, :]
    return (1 - j / n_words) - (k / dim) * (1 - 2 * j / n_words)


def softmax(z):
    z = z - np.max(z)
    e = np.exp(z)
    return e / e.sum()


def bag(sentences, table):
    """sentences: int (n, J), PAD words contribute nothing -> (n, d)"""
    vecs = table[sentences] * (sentences != PAD)[..., None]
    return (vecs * position_encoding(sentences.shape[1], table.shape[1])).sum(axis=1)


def answer(params, story, question, n_hops=3, return_attention=False):
    """story: int (n, J) oldest sentence first; rows of PAD only are skipped.
    question: int (J,). params: 'E' list of n_hops+1 word tables (V, d),
    'T' list of n_hops+1 time tables (max_age, d).

    Returns the distribution over the vocabulary, and with return_attention
    also the (n_hops, n) weights (zero on skipped rows).
    """
    story = np.asarray(story)
    real = (story != PAD).any(axis=1)
    lines = story[real]
    age = np.arange(len(lines))[::-1]

    u = bag(np.asarray(question)[None], params["E"][0])[0]
    trace = np.zeros((n_hops, len(story)))
    for k in range(n_hops):
        m = bag(lines, params["E"][k]) + params["T"][k][age]
        c = bag(lines, params["E"][k + 1]) + params["T"][k + 1][age]
        p = softmax(m @ u)
        trace[k, real] = p
        u = u + p @ c

    scores = params["E"][n_hops] @ u
    scores[PAD] = -np.inf
    out = softmax(scores)
    return (out, trace) if return_attention else out


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    V, d, hops = 30, 12, 3
    params = {
        "E": [rng.normal(0, 0.3, (V, d)) for _ in range(hops + 1)],
        "T": [rng.normal(0, 0.1, (10, d)) for _ in range(hops + 1)],
    }
    story = rng.integers(1, V, (6, 5))
    story[4:] = PAD
    dist, attn = answer(params, story, rng.integers(1, V, 5), return_attention=True)
    print(dist.argmax(), attn.round(3))
