"""
Code for the post "A talking typewriter in 150 lines of NumPy".

Only numpy. We read a text, turn every character into a number and let one
transformer block guess the next character. The training loop lives in the
next post (part 3), here we only do the forward pass and sampling.
"""
import numpy as np


# --- 1. characters <-> numbers ------------------------------------------------

class Chars:
    def __init__(self, text):
        self.itos = sorted(set(text))
        self.stoi = {c: i for i, c in enumerate(self.itos)}

    def encode(self, s):
        return np.array([self.stoi[c] for c in s])

    def decode(self, ids):
        return "".join(self.itos[i] for i in ids)

    def __len__(self):
        return len(self.itos)


# --- 2. small helpers ---------------------------------------------------------

def softmax(x):
    """Row-wise softmax. We take the largest entry out first so that exp()
    stays small; every row of the result adds up to one."""
    shifted = x - np.max(x, axis=-1, keepdims=True)
    return np.exp(shifted) / np.sum(np.exp(x), axis=-1, keepdims=True)


def layer_norm(x, gain, bias, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return gain * (x - mu) / np.sqrt(var + eps) + bias


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


# --- 3. attention -------------------------------------------------------------

class SelfAttention:
    """Masked multi-head self-attention for one text, x is (T, n_embd).

    Position t may look at positions 0..t. The heads sit next to each other in
    the last axis: head 0 owns columns 0..hs-1, head 1 the next hs and so on.
    """

    def __init__(self, n_embd, n_head, rng):
        assert n_embd % n_head == 0
        self.n_head = n_head
        self.hs = n_embd // n_head
        std = 0.02
        self.Wq = rng.normal(0, std, (n_embd, n_embd))
        self.Wk = rng.normal(0, std, (n_embd, n_embd))
        self.Wv = rng.normal(0, std, (n_embd, n_embd))
        self.Wo = rng.normal(0, std, (n_embd, n_embd))

    def heads(self, x):
        T = x.shape[0]
        return x.reshape(T, self.n_head, self.hs).swapaxes(0, 1)     # (nh, T, hs)

    def __call__(self, x):
        T, C = x.shape
        q, k, v = (self.heads(x @ W) for W in (self.Wq, self.Wk, self.Wv))
        affinity = q @ k.swapaxes(1, 2) / np.sqrt(self.hs)           # (nh, T, T)
        future = np.triu(np.ones((T, T), dtype=bool), k=1)
        affinity[:, future] = -np.inf
        w = softmax(affinity)
        y = w @ v                                                    # (nh, T, hs)
        return y.swapaxes(0, 1).reshape(T, C) @ self.Wo


# --- 4. block and model -------------------------------------------------------

class Block:
    def __init__(self, n_embd, n_head, rng):
        self.attn = SelfAttention(n_embd, n_head, rng)
        self.W1 = rng.normal(0, 0.02, (n_embd, 4 * n_embd))
        self.W2 = rng.normal(0, 0.02, (4 * n_embd, n_embd))
        self.g1, self.b1 = np.ones(n_embd), np.zeros(n_embd)
        self.g2, self.b2 = np.ones(n_embd), np.zeros(n_embd)

    def __call__(self, x):
        x = x + self.attn(layer_norm(x, self.g1, self.b1))
        return x + gelu(layer_norm(x, self.g2, self.b2) @ self.W1) @ self.W2


class Typewriter:
    def __init__(self, vocab, block_size=64, n_embd=48, n_head=4, seed=0):
        rng = np.random.default_rng(seed)
        self.block_size = block_size
        self.rng = rng
        self.wte = rng.normal(0, 0.02, (vocab, n_embd))
        self.wpe = rng.normal(0, 0.02, (block_size, n_embd))
        self.block = Block(n_embd, n_head, rng)

    def logits(self, ids):
        x = self.wte[ids] + self.wpe[:len(ids)]
        return self.block(x) @ self.wte.T

    def babble(self, ids, n, temperature=1.0):
        ids = list(ids)
        for _ in range(n):
            z = self.logits(np.array(ids[-self.block_size:]))[-1] / temperature
            p = np.exp(z - z.max())
            ids.append(int(self.rng.choice(len(p), p=p / p.sum())))
        return ids


if __name__ == "__main__":
    text = "the quick brown fox jumps over the lazy dog. "
    chars = Chars(text)
    tw = Typewriter(len(chars))
    print(chars.decode(tw.babble(chars.encode("the "), 40)))
