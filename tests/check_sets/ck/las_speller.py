"""Listen, Attend and Spell (Chan et al. 2016) - the AttendAndSpell decoder.

s_i = RNN(s_{i-1}, y_{i-1}, c_{i-1});  c_i = AttentionContext(s_i, h)
The scalar energy is <phi(s_i), psi(h_u)>, as in eq. (9) of the paper; no temperature.
"""
import torch
import torch.nn as nn


class AttentionContext(nn.Module):
    def __init__(self, state_dim, listener_dim, mlp_dim):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(state_dim, mlp_dim), nn.ReLU())
        self.psi = nn.Sequential(nn.Linear(listener_dim, mlp_dim), nn.ReLU())

    def forward(self, s, h, u_len):
        """s (B, state_dim), h (B, U, listener_dim), u_len (B,) frames in h -> c (B, listener_dim), alpha (B, U)"""
        e = torch.bmm(self.psi(h), self.phi(s).unsqueeze(2)).squeeze(2)
        beyond = torch.arange(h.size(1), device=h.device).unsqueeze(0) >= u_len.unsqueeze(1)
        alpha = torch.softmax(e.masked_fill(beyond, float("-inf")), dim=1)
        c = torch.bmm(alpha.unsqueeze(1), h).squeeze(1)
        return c, alpha


class AttendAndSpell(nn.Module):
    def __init__(self, vocab=30, listener_dim=24, state_dim=32, mlp_dim=20):
        super().__init__()
        self.state_dim = state_dim
        self.embed = nn.Embedding(vocab, state_dim)
        self.rnn1 = nn.LSTMCell(state_dim + listener_dim, state_dim)
        self.rnn2 = nn.LSTMCell(state_dim, state_dim)
        self.attend = AttentionContext(state_dim, listener_dim, mlp_dim)
        self.character = nn.Linear(state_dim + listener_dim, vocab)

    def forward(self, h, u_len, y):
        """Teacher forcing: y (B, S) with <sos> first. Returns logits (B, S, vocab) and alphas (B, S, U)."""
        B = h.size(0)
        c = h.new_zeros(B, h.size(2))
        z = h.new_zeros(B, self.state_dim)
        st1, st2 = (z, z), (z, z)
        logits, alphas = [], []
        for i in range(y.size(1)):
            st1 = self.rnn1(torch.cat([self.embed(y[:, i]), c], dim=1), st1)
            st2 = self.rnn2(st1[0], st2)
            c, a = self.attend(st2[0], h, u_len)
            logits.append(self.character(torch.cat([st2[0], c], dim=1)))
            alphas.append(a)
        return torch.stack(logits, 1), torch.stack(alphas, 1)
