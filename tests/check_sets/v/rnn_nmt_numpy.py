"""Recurrent decoder for short translations, with the attention of Bahdanau et al. (2014). Unbatched."""
import numpy as np

SOS, EOS = 0, 1


def softmax(z):
    z = np.exp(z - z.max())
    return z / z.sum()


class AttnDecoderRNN:
    def __init__(self, hidden_size, output_size, max_length=10, seed=0):
        g = np.random.default_rng(seed)
        mat = lambda r, c: g.normal(0, 1 / np.sqrt(c), (r, c))
        self.hidden_size, self.max_length = hidden_size, max_length
        self.embedding = g.normal(size=(output_size, hidden_size))
        self.attn_W, self.attn_b = mat(max_length, 2 * hidden_size), np.zeros(max_length)
        self.comb_W, self.comb_b = mat(hidden_size, 2 * hidden_size), np.zeros(hidden_size)
        self.rnn_x, self.rnn_h = mat(hidden_size, hidden_size), mat(hidden_size, hidden_size)
        self.out_W, self.out_b = mat(output_size, hidden_size), np.zeros(output_size)

    def step(self, token, hidden, encoder_outputs):
        """encoder_outputs: (length <= max_length, hidden_size)"""
        n = len(encoder_outputs)
        embedded = self.embedding[token]
        energies = self.attn_W @ np.concatenate([embedded, hidden]) + self.attn_b
        attn_weights = softmax(energies[:n])
        context = attn_weights @ encoder_outputs
        x = np.maximum(self.comb_W @ np.concatenate([embedded, context]) + self.comb_b, 0)
        hidden = np.tanh(self.rnn_x @ x + self.rnn_h @ hidden)
        return self.out_W @ hidden + self.out_b, hidden, attn_weights

    def forward(self, targets, encoder_outputs):
        hidden = encoder_outputs[-1]
        token, logits, maps = SOS, [], []
        for target in targets:
            y, hidden, a = self.step(token, hidden, encoder_outputs)
            logits.append(y)
            maps.append(a)
            token = target
        return np.array(logits), np.array(maps)

    def greedy(self, encoder_outputs, limit=12):
        hidden, token, words = encoder_outputs[-1], SOS, []
        while len(words) < limit:
            y, hidden, _ = self.step(token, hidden, encoder_outputs)
            token = int(y.argmax())
            if token == EOS:
                break
            words.append(token)
        return words


if __name__ == "__main__":
    enc = np.tanh(np.random.default_rng(9).normal(size=(6, 16)))
    dec = AttnDecoderRNN(16, 25)
    print(dec.greedy(enc))
    print(dec.forward([4, 8, 2, EOS], enc)[1].round(2))
