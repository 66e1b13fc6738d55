"""Decoder step of the discharge-report summariser, CPU build without a framework.

One step = GRU cell, additive attention over the encoded report with a coverage
term, and a copy switch.  The step carries a state (hidden, coverage) between
calls; the coverage is the sum of the attention weights of the earlier steps.

    e_i = v . tanh(W_h h_i + W_s s_t + w_c c_i + b)
    P(w) = p_gen * P_vocab(w) + (1 - p_gen) * sum_{i: token_i = w} a_i
"""
import numpy as np


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def softmax(x):
    z = np.exp(x - x.max())
    return z / z.sum()


class State:
    __slots__ = ("hidden", "coverage")

    def __init__(self, hidden, coverage):
        self.hidden = hidden
        self.coverage = coverage


class ReportDecoder:
    def __init__(self, vocab=30, dim=10, att=12, seed=3):
        rng = np.random.default_rng(seed)
        w = lambda *s: rng.normal(0, 0.4, s)
        self.emb = w(vocab, dim)
        self.gru_x, self.gru_h, self.gru_b = w(3, dim, dim), w(3, dim, dim), w(3, dim)
        self.W_h, self.W_s = w(dim, att), w(dim, att)
        self.w_c, self.b, self.v = w(att), w(att), w(att)
        self.out = w(2 * dim, vocab)
        self.gen = w(3 * dim)

    def start(self, memory):
        return State(np.tanh(memory.mean(0)), np.zeros(len(memory)))

    def _cell(self, x, h):
        z = sigmoid(x @ self.gru_x[0] + h @ self.gru_h[0] + self.gru_b[0])
        r = sigmoid(x @ self.gru_x[1] + h @ self.gru_h[1] + self.gru_b[1])
        n = np.tanh(x @ self.gru_x[2] + r * (h @ self.gru_h[2]) + self.gru_b[2])
        return (1 - z) * n + z * h

    def step(self, token, state, memory, source_tokens):
        """memory [n, dim], source_tokens [n] -> (probabilities [vocab], new state)"""
        x = self.emb[token]
        s = self._cell(x, state.hidden)
        pre = memory @ self.W_h + s @ self.W_s + np.outer(state.coverage, self.w_c) + self.b
        a = softmax(np.tanh(pre) @ self.v)
        ctx = a @ memory
        p_vocab = softmax(np.concatenate([s, ctx]) @ self.out)
        p_gen = sigmoid(np.concatenate([ctx, s, x]) @ self.gen)
        p = p_gen * p_vocab
        np.add.at(p, source_tokens, (1 - p_gen) * a)
        return p, State(s, state.coverage + a)


def summarise(decoder, memory, source_tokens, bos=0, steps=6):
    state, token, words = decoder.start(memory), bos, []
    for _ in range(steps):
        p, state = decoder.step(token, state, memory, source_tokens)
        token = int(p.argmax())
        words.append(token)
    return words


if __name__ == "__main__":
    g = np.random.default_rng(0)
    print(summarise(ReportDecoder(), g.normal(size=(7, 10)), g.integers(0, 30, 7)))
