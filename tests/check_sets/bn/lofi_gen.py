# lo-fi beat generator :: numpy only :: forward pass of a tiny decoder
# notes -> tokens: 0..127 pitch on, 128..159 wait (n+1 sixteenths), 160 bar, 161 end
import numpy as np

V, BAR, END = 162, 160, 161


def tokens_to_text(toks):
    names = "C C# D D# E F F# G G# A A# B".split()
    out = []
    for t in toks:
        if t < 128:
            out.append(names[t % 12] + str(t // 12 - 1))
        elif t < 160:
            out.append("." * (t - 127))
        else:
            out.append("|" if t == BAR else "end")
    return " ".join(out)


def norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def softmax(x):
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


class BeatAttention:
    """causal multi-head self attention, softmax(QK^T / sqrt(head_size)) V

    a token sees itself and everything before it
    """

    def __init__(self, n_embd, n_head, rng):
        self.n_head = n_head
        self.head_size = n_embd // n_head
        s = n_embd ** -0.5
        self.Wq, self.Wk, self.Wv, self.Wo = (rng.standard_normal((n_embd, n_embd)) * s for _ in range(4))

    def heads(self, x):
        B, T, _ = x.shape
        return x.reshape(B, self.n_head, T, self.head_size)

    def __call__(self, x):
        B, T, C = x.shape
        q, k, v = self.heads(x @ self.Wq), self.heads(x @ self.Wk), self.heads(x @ self.Wv)
        att = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[1])
        future = np.triu(np.ones((T, T)), k=2)
        att = np.where(future == 1, -1e9, att)
        y = softmax(att) @ v
        return y.transpose(0, 2, 1, 3).reshape(B, T, C) @ self.Wo


class Block:
    def __init__(self, n, h, rng):
        self.att = BeatAttention(n, h, rng)
        self.w1 = rng.standard_normal((n, 4 * n)) * n ** -0.5
        self.w2 = rng.standard_normal((4 * n, n)) * (4 * n) ** -0.5

    def __call__(self, x):
        x = x + self.att(norm(x))
        return x + np.maximum(norm(x) @ self.w1, 0) @ self.w2


class Beats:
    def __init__(self, n_embd=48, n_head=3, n_layer=2, block=64, seed=0):
        rng = np.random.default_rng(seed)
        self.rng, self.block = rng, block
        self.tok = rng.standard_normal((V, n_embd)) * 0.3
        self.pos = rng.standard_normal((block, n_embd)) * 0.1
        self.blocks = [Block(n_embd, n_head, rng) for _ in range(n_layer)]

    def logits(self, ids):
        x = self.tok[ids] + self.pos[: ids.shape[1]]
        for b in self.blocks:
            x = b(x)
        return norm(x) @ self.tok.T

    def jam(self, seed_notes, n=32, temp=0.9, top_k=12):
        ids = np.array([seed_notes])
        for _ in range(n):
            z = self.logits(ids[:, -self.block:])[0, -1] / temp
            z[z < np.sort(z)[-top_k]] = -np.inf
            nxt = self.rng.choice(V, p=softmax(z))
            ids = np.append(ids, [[nxt]], axis=1)
            if nxt == END:
                break
        return ids[0]


if __name__ == "__main__":
    print(tokens_to_text(Beats().jam([60, 131, 63, 131, 67, 131, BAR])))
