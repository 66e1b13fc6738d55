# HW3 problem 2: character level language model, forward pass in numpy
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))

def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)

def layer_norm(x, g, b, eps=1e-5):
    m = np.mean(x, axis=-1, keepdims=True)
    v = np.var(x, axis=-1, keepdims=True)
    return g * (x - m) / np.sqrt(v + eps) + b

def linear(x, w, b):
    return x @ w + b


class CharGPT:
    def __init__(self, vocab=27, block_size=16, n_embd=24, n_head=3, n_layer=2, seed=1337):
        rs = np.random.RandomState(seed)
        n = lambda *s: rs.randn(*s) * 0.2
        self.n_head = n_head
        self.block_size = block_size
        self.wte, self.wpe = n(vocab, n_embd), n(block_size, n_embd)
        self.blocks = []
        for _ in range(n_layer):
            self.blocks.append({
                'ln_1': (np.ones(n_embd), np.zeros(n_embd)),
                'c_attn': (n(n_embd, 3 * n_embd), np.zeros(3 * n_embd)),
                'c_proj': (n(n_embd, n_embd), np.zeros(n_embd)),
                'ln_2': (np.ones(n_embd), np.zeros(n_embd)),
                'c_fc': (n(n_embd, 4 * n_embd), np.zeros(4 * n_embd)),
                'c_proj2': (n(4 * n_embd, n_embd), np.zeros(n_embd)),
            })
        self.ln_f = (np.ones(n_embd), np.zeros(n_embd))

    def causal_self_attention(self, x, blk):
        B, T, C = x.shape
        q, k, v = np.split(linear(x, *blk['c_attn']), 3, axis=-1)
        hs = C // self.n_head
        q = q.reshape(B, T, self.n_head, hs).transpose(0, 2, 1, 3)
        k = k.reshape(B, T, self.n_head, hs).transpose(0, 2, 1, 3)
        v = v.reshape(B, T, self.n_head, hs).transpose(0, 2, 1, 3)
        att = q @ k.transpose(0, 1, 3, 2) / np.sqrt(hs)
        # no peeking at the future
        att = att * np.tril(np.ones((T, T)))
        att = softmax(att)
        y = (att @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
        return linear(y, *blk['c_proj'])

    def forward(self, idx):
        """idx: (B, T) array of token ids -> logits (B, T, vocab)"""
        B, T = idx.shape
        assert T <= self.block_size
        x = self.wte[idx] + self.wpe[:T]
        for blk in self.blocks:
            x = x + self.causal_self_attention(layer_norm(x, *blk['ln_1']), blk)
            h = gelu(linear(layer_norm(x, *blk['ln_2']), *blk['c_fc']))
            x = x + linear(h, *blk['c_proj2'])
        return layer_norm(x, *self.ln_f) @ self.wte.T
