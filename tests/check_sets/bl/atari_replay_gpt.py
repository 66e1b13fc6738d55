# transformer over (state, action, reward) steps, predicts the next action
# trained on replays of Breakout, my first try with RL
import torch
import torch.nn as nn
import torch.nn.functional as F

N_ACTIONS = 4
CONTEXT = 30
N_EMBD = 64
N_HEAD = 4


class Head(nn.Module):
    """ one head of self-attention, step t looks at the steps 0..t """

    def __init__(self, n_embd, head_size):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer('tril', torch.tril(torch.ones(CONTEXT, CONTEXT), diagonal=1))

    def forward(self, x):
        B, T, C = x.shape
        k = self.key(x)    # (B,T,hs)
        q = self.query(x)  # (B,T,hs)
        # compute attention scores ("affinities")
        wei = q @ k.transpose(-2, -1)  # (B,T,hs) @ (B,hs,T) -> (B,T,T)
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float('-inf'))
        wei = F.softmax(wei, dim=-1)
        v = self.value(x)
        return wei @ v


class MultiHeadAttention(nn.Module):
    """ several heads of scaled dot-product self-attention, then a projection """

    def __init__(self, n_embd=N_EMBD, n_head=N_HEAD):
        super().__init__()
        self.heads = [Head(n_embd, n_embd // n_head) for _ in range(n_head)]
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        return self.proj(out)


class Block(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.sa = MultiHeadAttention(n_embd, n_head)
        self.ffwd = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd))
        self.ln1 = nn.LayerNorm(n_embd)
        self.ln2 = nn.LayerNorm(n_embd)

    def forward(self, x):
        x = x + self.sa(self.ln1(x))
        x = x + self.ffwd(self.ln2(x))
        return x


class ReplayGPT(nn.Module):
    def __init__(self, state_dim, n_layer=2):
        super().__init__()
        self.state = nn.Linear(state_dim, N_EMBD)
        self.action = nn.Embedding(N_ACTIONS, N_EMBD)
        self.reward = nn.Linear(1, N_EMBD)
        self.pos = nn.Embedding(CONTEXT, N_EMBD)
        self.blocks = nn.Sequential(*[Block(N_EMBD, N_HEAD) for _ in range(n_layer)])
        self.head = nn.Linear(N_EMBD, N_ACTIONS)

    def forward(self, states, prev_actions, prev_rewards):
        T = states.shape[1]
        x = self.state(states) + self.action(prev_actions) + self.reward(prev_rewards.unsqueeze(-1))
        x = x + self.pos(torch.arange(T, device=states.device))
        return self.head(self.blocks(x))


if __name__ == '__main__':
    torch.manual_seed(1337)
    model = ReplayGPT(16)
    s, a, r = torch.randn(8, CONTEXT, 16), torch.randint(N_ACTIONS, (8, CONTEXT)), torch.randn(8, CONTEXT)
    y = torch.randint(N_ACTIONS, (8, CONTEXT))
    loss = F.cross_entropy(model(s, a, r).flatten(0, 1), y.flatten())
    print(loss.item())
