import torch as th
import torch.nn as nn
import torch.nn.functional as F


class EntityAttentionAgent(nn.Module):
    """Recurrent Q-agent which attends over the entities that each agent observes.

    inputs: (batch * n_agents, n_entities, feat)
    hidden: (batch * n_agents, rnn_hidden_dim)
    """

    def __init__(self, entity_feat_dim, n_actions, attn_embed_dim=32, attn_n_heads=4, rnn_hidden_dim=32):
        super(EntityAttentionAgent, self).__init__()
        self.rnn_hidden_dim = rnn_hidden_dim
        self.fc1 = nn.Linear(entity_feat_dim, attn_embed_dim)
        self.attn = nn.MultiheadAttention(attn_embed_dim, attn_n_heads)
        self.fc2 = nn.Linear(attn_embed_dim, rnn_hidden_dim)
        self.rnn = nn.GRUCell(rnn_hidden_dim, rnn_hidden_dim)
        self.fc3 = nn.Linear(rnn_hidden_dim, n_actions)

    def init_hidden(self):
        # make hidden states on same device as model
        return self.fc1.weight.new(1, self.rnn_hidden_dim).zero_()

    def forward(self, inputs, hidden_state=None):
        bs, n_entities, _ = inputs.shape
        if hidden_state is None:
            hidden_state = self.init_hidden().expand(bs, -1)
        x1 = F.relu(self.fc1(inputs))
        x2, _ = self.attn(x1, x1, x1, need_weights=False)
        x = F.relu(self.fc2(x1 + x2)).mean(dim=1)
        h = self.rnn(x, hidden_state)
        q = self.fc3(h)
        return q, h
