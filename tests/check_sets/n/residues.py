# %% [markdown]
# Attention between the residues of a protein, exported from the notebook.

# %%
import numpy as np

# %%
def softmax(a):
    a = np.exp(a - a.max(-1, keepdims=True))
    return a / a.sum()


# %%
def residue_attention(X, Wq, Wk, Wv):
    """X: (residues, features)"""
    Q, K, V = X @ Wq, X @ Wk, X @ Wv
    A = softmax(Q @ K.T / np.sqrt(K.shape[1]))
    return A @ V, A
