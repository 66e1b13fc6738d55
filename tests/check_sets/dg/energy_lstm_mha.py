# Household power consumption, notebook v7: LSTM + multi-head on the hidden states
import torch
import torch.nn as nn


class PowerNet(nn.Module):
    """window (B, T, F): T past hours of F sensors -> (B, horizon)"""

    def __init__(self, sensors=7, hidden=32, heads=4, horizon=6):
        super().__init__()
        self.lstm = nn.LSTM(sensors, hidden, num_layers=1, batch_first=True)
        self.mha = nn.MultiheadAttention(hidden, heads, dropout=0.1)
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, horizon)

    def forward(self, window):
        h, _ = self.lstm(window)
        z, _ = self.mha(h, h, h, need_weights=False)
        h = self.norm(h + z)
        return self.out(h[:, -1])


def train_step(net, opt, window, target):
    net.train()
    loss = nn.functional.l1_loss(net(window), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()
