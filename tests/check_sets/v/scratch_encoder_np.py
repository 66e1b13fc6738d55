import numpy as np


class Linear:
    def __init__(self, fan_in, fan_out, rng):
        self.W = rng.normal(0, np.sqrt(1.0 / fan_in), size=(fan_in, fan_out))
        self.b = np.zeros(fan_out)

    def forward(self, x):
        return np.dot(x, self.W) + self.b


class LayerNorm:
    def __init__(self, dim):
        self.gamma, self.beta = np.ones(dim), np.zeros(dim)

    def forward(self, x):
        return self.gamma * (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-6) + self.beta


class MultiHeadAttention:
    def __init__(self, d_model, num_heads, rng):
        assert d_model % num_heads == 0
        self.num_heads = num_heads
        self.depth = d_model // num_heads
        self.wq = Linear(d_model, d_model, rng)
        self.wk = Linear(d_model, d_model, rng)
        self.wv = Linear(d_model, d_model, rng)
        self.dense = Linear(d_model, d_model, rng)

    def split_heads(self, x):
        batch, length, _ = x.shape
        return x.reshape(batch, self.num_heads, length, self.depth)

    def softmax(self, x):
        x = x - np.max(x, axis=-1, keepdims=True)
        e = np.exp(x)
        return e / np.sum(e, axis=-1, keepdims=True)

    def forward(self, query, key, value, mask=None):
        q = self.split_heads(self.wq.forward(query))
        k = self.split_heads(self.wk.forward(key))
        v = self.split_heads(self.wv.forward(value))
        scores = np.matmul(q, np.swapaxes(k, 2, 3)) / np.sqrt(self.depth)
        if mask is not None:
            # mask: (batch, 1, 1, keys), 0 = ignore
            scores = np.where(mask == 0, -1e9, scores)
        weights = self.softmax(scores)
        context = np.matmul(weights, v)
        context = context.transpose(0, 2, 1, 3)
        context = context.reshape(context.shape[0], context.shape[1], -1)
        return self.dense.forward(context), weights


class EncoderLayer:
    def __init__(self, d_model, num_heads, d_ff, rng):
        self.mha = MultiHeadAttention(d_model, num_heads, rng)
        self.norm1, self.norm2 = LayerNorm(d_model), LayerNorm(d_model)
        self.up, self.down = Linear(d_model, d_ff, rng), Linear(d_ff, d_model, rng)

    def forward(self, x, mask=None):
        attn, _ = self.mha.forward(x, x, x, mask)
        x = self.norm1.forward(x + attn)
        return self.norm2.forward(x + self.down.forward(np.maximum(self.up.forward(x), 0)))


class Encoder:
    def __init__(self, num_layers=2, d_model=24, num_heads=4, d_ff=48, vocab=50, seed=0):
        rng = np.random.default_rng(seed)
        self.emb = rng.normal(size=(vocab, d_model))
        self.layers = [EncoderLayer(d_model, num_heads, d_ff, rng) for _ in range(num_layers)]

    def forward(self, tokens):
        mask = (tokens != 0)[:, None, None, :].astype(int)
        x = self.emb[tokens] * np.sqrt(self.emb.shape[1])
        for layer in self.layers:
            x = layer.forward(x, mask)
        return x


if __name__ == "__main__":
    toks = np.array([[5, 8, 2, 44, 7, 0, 0], [9, 9, 1, 3, 17, 21, 4]])
    print(Encoder().forward(toks)[0, 0, :5])
