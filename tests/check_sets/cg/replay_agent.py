"""Agent à mémoire épisodique : il consulte ses souvenirs par attention avant d'agir.

La mémoire garde les ``capacity`` dernières transitions (clé d'état, vecteur valeur).
Pour agir, l'état devient une requête par tête ; l'attention multi-têtes à produit
scalaire mis à l'échelle, sur les clés gardées, donne un vecteur lu, et les valeurs Q sont
linéaires en [état, lecture].
"""
import numpy as np


def log_sum_exp(a, axis):
    top = a.max(axis=axis, keepdims=True)
    return top + np.log(np.exp(a - top).sum(axis=axis, keepdims=True))


class EpisodicMemory:
    def __init__(self, capacity, heads, size):
        self.keys = np.zeros((heads, capacity, size))
        self.values = np.zeros((heads, capacity, size))
        self.capacity, self.count = capacity, 0

    def __len__(self):
        return min(self.count, self.capacity)

    def write(self, key, value):
        slot = self.count % self.capacity
        self.keys[:, slot], self.values[:, slot] = key, value
        self.count += 1

    def read(self, query):
        """query [H, d] -> [H, d]; zéros tant que la mémoire est vide"""
        n = len(self)
        if n == 0:
            return np.zeros_like(query)
        keys, values = self.keys[:, :n], self.values[:, :n]
        scores = np.einsum("hd,hnd->hn", query, keys) / np.sqrt(keys.shape[1])
        weights = np.exp(scores - log_sum_exp(scores, axis=1))
        return np.einsum("hn,hnd->hd", weights, values)


class ReplayAgent:
    def __init__(self, state_dim=5, actions=4, heads=2, size=8, capacity=64, seed=0):
        rng = np.random.default_rng(seed)
        self.heads, self.size = heads, size
        self.wq = rng.normal(size=(state_dim, heads * size))
        self.wk = rng.normal(size=(state_dim, heads * size))
        self.wv = rng.normal(size=(state_dim + actions + 1, heads * size))
        self.q_head = rng.normal(size=(state_dim + heads * size, actions)) * 0.1
        self.actions = actions
        self.memory = EpisodicMemory(capacity, heads, size)

    def remember(self, state, action, reward):
        onehot = np.eye(self.actions)[action]
        value = np.concatenate([state, onehot, [reward]]) @ self.wv
        self.memory.write((state @ self.wk).reshape(self.heads, self.size),
                          value.reshape(self.heads, self.size))

    def q_values(self, state):
        read = self.memory.read((state @ self.wq).reshape(self.heads, self.size))
        return np.concatenate([state, read.ravel()]) @ self.q_head

    def act(self, state):
        return int(np.argmax(self.q_values(state)))


if __name__ == "__main__":
    g = np.random.default_rng(3)
    agent = ReplayAgent()
    for _ in range(20):
        agent.remember(g.normal(size=5), g.integers(4), g.normal())
    print(agent.q_values(g.normal(size=5)))
