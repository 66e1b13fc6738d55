"""
Trajectory model for basketball tracking data (10 players + ball).

tensors are  tracks: [batch, agents, time, feat]
             present: [batch, agents, time]  bool, True = agent tracked in this frame

time axis  -> causal self attention, one sequence per agent
agent axis -> full self attention, one sequence per frame
nn.MultiheadAttention keeps its default layout here (length, batch, channels).
"""
import torch
import torch.nn as nn

N_AGENTS = 11
COURT = (28.65, 15.24)  # metres


def normalise(xy):
    return xy / xy.new_tensor(COURT) * 2 - 1


def future(t, device=None):
    return torch.triu(torch.ones(t, t, dtype=torch.bool, device=device), diagonal=1)


class FactorisedBlock(nn.Module):
    def __init__(self, d_model, nhead, dropout=0.1):
        super().__init__()
        self.time_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.team_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.norm_t = nn.LayerNorm(d_model)
        self.norm_a = nn.LayerNorm(d_model)
        self.norm_f = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))
        self.drop = nn.Dropout(dropout)

    def forward(self, x, present):
        b, a, t, d = x.shape

        # ---- over time: (t, b*a, d); a frame of an absent agent is skipped as a key,
        # its own frame stays visible so that no row is empty
        z = self.norm_t(x).reshape(b * a, t, d).transpose(0, 1)
        gone = ~present.reshape(b * a, 1, t).expand(-1, t, -1)
        block = (gone & ~torch.eye(t, dtype=torch.bool, device=x.device)) | future(t, x.device)
        block = block.repeat_interleave(self.time_attn.num_heads, dim=0)
        z = self.time_attn(z, z, z, attn_mask=block, need_weights=False)[0]
        x = x + self.drop(z.transpose(0, 1).reshape(b, a, t, d))

        # ---- over agents: (a, b*t, d); True in key_padding_mask = skip
        z = self.norm_a(x).transpose(1, 2).reshape(b * t, a, d).transpose(0, 1)
        skip = ~present.transpose(1, 2).reshape(b * t, a)
        skip = skip & ~skip.all(dim=1, keepdim=True)  # nobody tracked: see everybody
        z = self.team_attn(z, z, z, key_padding_mask=skip, need_weights=False)[0]
        x = x + self.drop(z.transpose(0, 1).reshape(b, t, a, d).transpose(1, 2))

        return x + self.drop(self.ff(self.norm_f(x)))


class CourtMotion(nn.Module):
    def __init__(self, d_model=32, nhead=4, layers=2, modes=3, max_t=64):
        super().__init__()
        self.inp = nn.Linear(4, d_model)
        self.role = nn.Embedding(N_AGENTS, d_model)
        self.time = nn.Embedding(max_t, d_model)
        self.blocks = nn.ModuleList([FactorisedBlock(d_model, nhead) for _ in range(layers)])
        self.out = nn.Linear(d_model, modes * 2)
        self.logit = nn.Linear(d_model, modes)
        self.modes = modes

    def forward(self, tracks, present):
        b, a, t, _ = tracks.shape
        x = self.inp(tracks)
        x = x + self.role.weight[:a, None] + self.time.weight[:t]
        for blk in self.blocks:
            x = blk(x, present)
        step = self.out(x).view(b, a, t, self.modes, 2)
        return step, self.logit(x).log_softmax(-1)


def best_of_modes(step, logp, target, present):
    err = (step - target.unsqueeze(3)).pow(2).sum(-1)
    best = err.argmin(-1, keepdim=True)
    loss = err.gather(-1, best) - logp.gather(-1, best)
    return (loss.squeeze(-1) * present).sum() / present.sum().clamp(min=1)
