"""verb_drill: irregular verbs for evening classes.

No classes.  State lives in dicts, functions end in what they return.
Additive attention after Bahdanau: e_j = v . tanh(W s + U m_j + b).
"""
import torch


def fresh_weights(n_vocab, d, a, seed=3):
    g = torch.Generator().manual_seed(seed)

    def mat(r, c):
        return torch.randn(r, c, generator=g) * (1.0 / r) ** 0.5

    return dict(
        emb=mat(n_vocab, d), W=mat(d, a), U=mat(d, a), b=torch.zeros(a), v=mat(a, 1).squeeze(1),
        gate_x=mat(2 * d, 3 * d), gate_h=mat(d, 3 * d), gate_b=torch.zeros(3 * d),
        out=mat(2 * d, n_vocab),
    )


def gru_cell_h(w, x, h):
    d = h.shape[-1]
    gx = x @ w["gate_x"] + w["gate_b"]
    gh = h @ w["gate_h"]
    r = torch.sigmoid(gx[:, :d] + gh[:, :d])
    z = torch.sigmoid(gx[:, d:2 * d] + gh[:, d:2 * d])
    n = torch.tanh(gx[:, 2 * d:] + r * gh[:, 2 * d:])
    return (1 - z) * n + z * h


def stable_exp(t, keep):
    t = torch.where(keep, t, torch.full_like(t, -torch.inf))
    return torch.exp(t - t.max(dim=-1, keepdim=True).values)


def recall_step(w, token, state, memory, keep):
    """One letter of the answer.

    token   (B,)       last letter
    state   (B, d)     decoder state
    memory  (B, M, d)  letters of the infinitive, encoded
    keep    (B, M)     bool, True = letter exists (each verb has at least one)
    returns logits (B, vocab), new state (B, d), weights (B, M)
    """
    pre = (state @ w["W"]).unsqueeze(1) + memory @ w["U"] + w["b"]
    energy = torch.tanh(pre) @ w["v"]
    e = stable_exp(energy, keep)
    alpha = e / e.sum(-1, keepdim=True)
    context = (alpha.unsqueeze(-1) * memory).sum(1)
    x = torch.cat([w["emb"][token], context], dim=-1)
    state = gru_cell_h(w, x, state)
    return torch.cat([state, context], -1) @ w["out"], state, alpha


def spell_answer(w, memory, keep, start=0, letters=6):
    state = memory.mean(1)
    token = torch.full((memory.shape[0],), start)
    said = []
    for _ in range(letters):
        logits, state, _ = recall_step(w, token, state, memory, keep)
        token = logits.argmax(-1)
        said.append(token)
    return torch.stack(said, 1)
