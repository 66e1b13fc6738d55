"""PPO policy over a variable set of entities (multi-agent arena).

obs = {"self": (B, F_s), "entities": (B, N, F_e), "visible": (B, N) bool}
Entities out of sight must not influence the policy.
"""
import torch
import torch.nn as nn
from torch.distributions import Categorical


def layer_init(layer, std=2 ** 0.5, bias=0.0):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class EntityAttention(nn.Module):
    """The agent asks, the entities (and the agent itself, always visible) answer."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.q = layer_init(nn.Linear(dim, dim), 1.0)
        self.kv = layer_init(nn.Linear(dim, 2 * dim), 1.0)
        self.o = layer_init(nn.Linear(dim, dim), 1.0)
        self.ln = nn.LayerNorm(dim)

    def forward(self, me, ents, visible):
        B, N, D = ents.shape
        toks = torch.cat([me.unsqueeze(1), ents], dim=1)
        vis = torch.cat([torch.ones_like(visible[:, :1]), visible], dim=1)
        q = self.q(self.ln(me)).view(B, self.heads, self.hd)
        k, v = self.kv(self.ln(toks)).view(B, N + 1, 2, self.heads, self.hd).unbind(2)
        logits = torch.einsum("bhd,bnhd->bhn", q, k) / self.hd ** 0.5
        w = torch.softmax(logits, dim=-1) * vis.unsqueeze(1)
        y = torch.einsum("bhn,bnhd->bhd", w, v).reshape(B, D)
        return me + self.o(y), w


class EntityPolicy(nn.Module):
    def __init__(self, f_self, f_ent, n_actions, dim=64, heads=4, layers=1):
        super().__init__()
        self.enc_self = nn.Sequential(layer_init(nn.Linear(f_self, dim)), nn.Tanh())
        self.enc_ent = nn.Sequential(layer_init(nn.Linear(f_ent, dim)), nn.Tanh())
        self.att = nn.ModuleList(EntityAttention(dim, heads) for _ in range(layers))
        self.rnn = nn.LSTMCell(dim, dim)
        self.actor = layer_init(nn.Linear(dim, n_actions), 0.01)
        self.critic = layer_init(nn.Linear(dim, 1), 1.0)

    def features(self, obs):
        me, ents = self.enc_self(obs["self"]), self.enc_ent(obs["entities"])
        for att in self.att:
            me, _ = att(me, ents, obs["visible"])
        return me

    def step(self, obs, state, done, action=None):
        h, c = state
        live = (1.0 - done.float()).unsqueeze(-1)
        h, c = self.rnn(self.features(obs), (h * live, c * live))
        dist = Categorical(logits=self.actor(h))
        if action is None:
            action = dist.sample()
        return action, dist.log_prob(action), dist.entropy(), self.critic(h).squeeze(-1), (h, c)

    def initial_state(self, batch):
        z = torch.zeros(batch, self.rnn.hidden_size)
        return z, z.clone()


def gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95):
    """all (T, B); dones[t] says that the episode ended after step t"""
    adv = torch.zeros_like(rewards)
    run = torch.zeros_like(last_value)
    for t in reversed(range(len(rewards))):
        nxt = last_value if t == len(rewards) - 1 else values[t + 1]
        cont = 1.0 - dones[t].float()
        run = rewards[t] + gamma * nxt * cont - values[t] + gamma * lam * cont * run
        adv[t] = run
    return adv, adv + values


def ppo_loss(new_logp, old_logp, adv, value, ret, entropy, clip=0.2, vf=0.5, ent=0.01):
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    ratio = (new_logp - old_logp).exp()
    pg = torch.max(-adv * ratio, -adv * ratio.clamp(1 - clip, 1 + clip)).mean()
    return pg + vf * 0.5 * (value - ret).pow(2).mean() - ent * entropy.mean()


if __name__ == "__main__":
    B, N = 3, 5
    pol = EntityPolicy(6, 4, 7)
    obs = {"self": torch.randn(B, 6), "entities": torch.randn(B, N, 4),
           "visible": torch.rand(B, N) > 0.5}
    a, logp, h, v, s = pol.step(obs, pol.initial_state(B), torch.zeros(B))
    print(a, logp, v)
