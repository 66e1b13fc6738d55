"""Post: "The KV cache, explained with forty lines of PyTorch".

Generating word by word, the keys and values of the old words never change. So
we keep them, and only compute those of the new words. Reading a prompt in pieces
must give the very same numbers as reading it at once.
"""
import torch


def embed(ids, weights, start):
    """ids (B, T) -> (B, T, D). start = position of the first of them."""
    T = ids.shape[1]
    return weights["tok"][ids] + weights["pos"][start:start + T]


def read(ids, weights, n_heads, cache=None):
    """One attention layer over T new words.

    ids     : (B, T) token numbers, the words that follow those in the cache
    weights : dict; tok (vocab, D), pos (max_len, D), wq, wk, wv, wo (D, D), used as
              x @ w; head h owns the columns h*d to (h+1)*d - 1
    cache   : None at the beginning, else the second thing returned by the last call:
              (k, v), each (B, H, P, d) for the P words read so far
    Returns (y (B, T, D), new cache). Word number i (counted from the beginning of
    the text) sees the words 0..i, old and new; softmax(q k^T / sqrt(d)).
    """
    past = 0 if cache is None else cache[0].shape[2]
    x = embed(ids, weights, past)
    B, T, D = x.shape

    def heads(w):
        return (x @ w).unflatten(-1, (n_heads, -1)).transpose(1, 2)

    q, k, v = (heads(weights[n]) for n in ("wq", "wk", "wv"))
    if cache is not None:
        k = torch.cat((cache[0], k), dim=2)
        v = torch.cat((cache[1], v), dim=2)

    scores = (q @ k.mT) / q.shape[-1] ** 0.5                 # (B, H, T, past + T)
    visible = torch.ones(T, past + T, dtype=torch.bool).tril(past)
    scores = torch.where(visible, scores, float("-inf"))
    y = scores.softmax(-1) @ v
    return y.transpose(1, 2).flatten(2) @ weights["wo"], (k, v)


if __name__ == "__main__":
    torch.manual_seed(0)
    W = {"tok": torch.randn(11, 8), "pos": torch.randn(20, 8)}
    W.update({n: torch.randn(8, 8) for n in ("wq", "wk", "wv", "wo")})
    t = torch.randint(11, (2, 7))
    whole, _ = read(t, W, 2)
    a, c = read(t[:, :4], W, 2)
    b, c = read(t[:, 4:], W, 2, c)
    print((whole - torch.cat((a, b), 1)).abs().max())
