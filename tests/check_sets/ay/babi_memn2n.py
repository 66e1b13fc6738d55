"""End-To-End Memory Network (Sukhbaatar et al., 2015) for the bAbI tasks.

Inference only: matrices come from ``convert_torch.py`` as an npz file. Position
encoding (PE) of words inside a sentence, temporal encoding, adjacent weight
tying (A^{k+1} = C^k), linear hops. As in the paper the match between question
and memory is the plain inner product followed by a softmax over the sentences.
"""
import re

import numpy as np

PAD = 0


def tokenize(line):
    return re.findall(r"[a-z]+", line.lower())


class Vocab:
    def __init__(self, words=()):
        self.id = {"<pad>": PAD}
        for w in words:
            self.id.setdefault(w, len(self.id))

    def vector(self, line, width):
        v = np.full(width, PAD, dtype=np.int64)
        toks = [self.id[w] for w in tokenize(line)][:width]
        v[:len(toks)] = toks
        return v

    def __len__(self):
        return len(self.id)


def word_position_weights(J, d):
    """l_kj = (1 - j/J) - (k/d)(1 - 2j/J), shape [J, d]."""
    j = np.arange(1, J + 1)[:, None]
    k = np.arange(1, d + 1)[None, :]
    return (1 - j / J) - (k / d) * (1 - 2 * j / J)


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


class MemN2N:
    """Holds several stories and answers any number of questions about each.

    emb    : list of hops+1 arrays [V, d]; emb[k] is A of hop k, emb[k+1] its C
    tempo  : list of hops+1 arrays [max_sentences, d], temporal encoding, row 0
             belongs to the newest sentence
    """

    def __init__(self, emb, tempo, max_words):
        self.emb = emb
        self.tempo = tempo
        self.hops = len(emb) - 1
        self.max_words = max_words
        self.pe = word_position_weights(max_words, emb[0].shape[1])
        self.stories = {}
        self._memo = {}

    def add_story(self, sid, sentences, vocab):
        self.stories[sid] = np.stack([vocab.vector(s, self.max_words) for s in sentences])
        self.forget(sid)

    def forget(self, sid):
        for key in [k for k in self._memo if k[1] == sid]:
            del self._memo[key]

    def bag(self, k, words):
        e = self.emb[k][words] * (words != PAD)[..., None]
        return (e * self.pe).sum(axis=-2)

    def memory(self, k, sid):
        """Encoded sentences of a story, the same for every question."""
        key = ("mem", sid, k)
        if key not in self._memo:
            story = self.stories[sid]
            order = np.arange(len(story))[::-1]
            self._memo[key] = self.bag(k, story) + self.tempo[k][order]
        return self._memo[key]

    def attend(self, k, sid, u):
        """p_i = softmax(u . m_i) over the sentences of the story."""
        key = ("p", sid, k)
        if key not in self._memo:
            self._memo[key] = softmax(self.memory(k, sid) @ u)
        return self._memo[key]

    def state(self, sid, question):
        """question: [max_words] ids. Returns final state and the p of every hop."""
        u = self.bag(0, question)
        trace = []
        for k in range(self.hops):
            p = self.attend(k, sid, u)
            o = p @ self.memory(k + 1, sid)
            u = u + o
            trace.append(p)
        return u, trace

    def answer(self, sid, question):
        u, trace = self.state(sid, question)
        scores = self.emb[-1] @ u
        return int(scores[1:].argmax()) + 1, trace


def from_npz(path, max_words):
    z = np.load(path)
    n = len([k for k in z.files if k.startswith("emb")])
    return MemN2N([z[f"emb{i}"] for i in range(n)], [z[f"tempo{i}"] for i in range(n)], max_words)


def demo(seed=3):
    rng = np.random.default_rng(seed)
    text = ["Mary went to the kitchen", "John took the milk", "John moved to the garden"]
    vocab = Vocab(w for s in text + ["where is the milk", "who"] for w in tokenize(s))
    d, hops = 12, 3
    net = MemN2N([rng.normal(0, .3, (len(vocab), d)) for _ in range(hops + 1)],
                 [rng.normal(0, .1, (20, d)) for _ in range(hops + 1)], max_words=6)
    net.add_story("s1", text, vocab)
    for q in ("where is Mary", "where is the milk"):
        print(q, net.answer("s1", vocab.vector(q, 6)))


if __name__ == "__main__":
    demo()
