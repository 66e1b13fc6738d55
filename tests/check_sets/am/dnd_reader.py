"""Recurrent agent with an external episodic memory (key/value store) that is read by content.

The read is scaled dot-product attention of the LSTM state over the written slots; slots that were not
written since the last reset have no part in it.
"""
import torch
from torch import nn


class EpisodicStore:
    """ring buffer per environment"""

    def __init__(self, n_env, slots, key_dim, val_dim):
        self.keys = torch.zeros(n_env, slots, key_dim)
        self.vals = torch.zeros(n_env, slots, val_dim)
        self.written = torch.zeros(n_env, slots, dtype=torch.bool)
        self.ptr = torch.zeros(n_env, dtype=torch.long)

    def write(self, key, val):
        e = torch.arange(len(self.ptr))
        self.keys[e, self.ptr] = key.detach()
        self.vals[e, self.ptr] = val.detach()
        self.written[e, self.ptr] = True
        self.ptr = (self.ptr + 1) % self.keys.shape[1]

    def reset(self, done):
        self.keys[done] = 0
        self.vals[done] = 0
        self.written[done] = False
        self.ptr[done] = 0


class MemoryReader(nn.Module):
    def __init__(self, state_dim, key_dim, val_dim):
        super().__init__()
        self.to_q = nn.Linear(state_dim, key_dim)
        self.to_out = nn.Linear(val_dim, val_dim)

    def forward(self, state, store):
        """state [E, S] -> read vector [E, V], weights [E, slots]"""
        q = self.to_q(state)
        score = torch.einsum("ek,esk->es", q, store.keys)
        score.masked_fill(~store.written, -1e9)
        w = torch.softmax(score, dim=-1)
        read = torch.einsum("es,esv->ev", w, store.vals)
        return self.to_out(read), w


class MemoryAgent(nn.Module):
    def __init__(self, obs, actions, hid=64, key_dim=16, val_dim=32, slots=20):
        super().__init__()
        self.slots, self.key_dim, self.val_dim = slots, key_dim, val_dim
        self.enc = nn.Sequential(nn.Linear(obs, hid), nn.ELU())
        self.core = nn.LSTMCell(hid + val_dim, hid)
        self.reader = MemoryReader(hid, key_dim, val_dim)
        self.wk, self.wv = nn.Linear(hid, key_dim), nn.Linear(hid, val_dim)
        self.pi, self.value = nn.Linear(hid + val_dim, actions), nn.Linear(hid + val_dim, 1)

    def start(self, n_env):
        z = lambda n: torch.zeros(n_env, n)
        return (z(self.core.hidden_size), z(self.core.hidden_size)), z(self.val_dim), \
            EpisodicStore(n_env, self.slots, self.key_dim, self.val_dim)

    def step(self, obs, state, read, store):
        x = self.enc(obs)
        state = self.core(torch.cat([x, read], -1), state)
        h = state[0]
        read, _ = self.reader(h, store)
        store.write(self.wk(h), self.wv(h))
        z = torch.cat([h, read], -1)
        return self.pi(z), self.value(z).squeeze(-1), state, read


def returns(rewards, dones, last, gamma=0.99):
    out, r = [], last
    for rew, d in zip(reversed(rewards), reversed(dones)):
        r = rew + gamma * r * (~d)
        out.append(r)
    return torch.stack(out[::-1])
