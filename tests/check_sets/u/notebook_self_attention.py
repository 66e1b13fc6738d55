# %% [markdown]
# # Self-attention by hand
import numpy as np

# %%
sentence = "the cat sat on the mat".split()
vocab = {w: i for i, w in enumerate(sorted(set(sentence)))}

# %%
np.random.seed(42)
d_model, d_k = 8, 4
E = np.random.randn(len(vocab), d_model)
W_q = np.random.randn(d_model, d_k)
W_k = np.random.randn(d_model, d_k)
W_v = np.random.randn(d_model, d_k)


# %%
def softmax(z):
    e = np.exp(z - np.max(z))
    return e / np.sum(e)


# %%
# X: one row per word. Each row of the weights says how much that word looks at the others.
def self_attention(X, W_q, W_k, W_v):
    Q, K, V = X @ W_q, X @ W_k, X @ W_v
    scores = Q @ K.T / np.sqrt(K.shape[1])
    weights = softmax(scores)
    return weights @ V, weights


# %%
if __name__ == "__main__":
    X = E[[vocab[w] for w in sentence]]
    Z, A = self_attention(X, W_q, W_k, W_v)
    print(Z.shape)
    print(A.round(3))
