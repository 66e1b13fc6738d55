import torch
import torch.nn as nn


class Attn_Net_Gated(nn.Module):
    """
    Attention network with sigmoid gating (3 fc layers)
    args:
        L: input feature dimension
        D: hidden layer dimension
        dropout: whether to use dropout (p = 0.25)
        n_classes: number of classes
    """

    def __init__(self, L=1024, D=256, dropout=False, n_classes=1):
        super().__init__()
        a = [nn.Linear(L, D), nn.Tanh()]
        b = [nn.Linear(L, D), nn.Sigmoid()]
        if dropout:
            a.append(nn.Dropout(0.25))
            b.append(nn.Dropout(0.25))
        self.attention_a = nn.Sequential(*a)
        self.attention_b = nn.Sequential(*b)
        self.attention_c = nn.Linear(D, n_classes)

    def forward(self, x):
        A = self.attention_a(x).mul(self.attention_b(x))
        return self.attention_c(A), x  # N x n_classes


class GatedMIL(nn.Module):
    """One bag (slide) at a time: h is N_patches x in_dim."""

    def __init__(self, in_dim=128, hidden=64, attn_dim=32, n_classes=2, dropout=True):
        super().__init__()
        fc = [nn.Linear(in_dim, hidden), nn.ReLU()]
        if dropout:
            fc.append(nn.Dropout(0.25))
        self.fc = nn.Sequential(*fc)
        self.attention_net = Attn_Net_Gated(L=hidden, D=attn_dim, dropout=dropout, n_classes=1)
        self.classifier = nn.Linear(hidden, n_classes)

    def forward(self, h, attention_only=False):
        h = self.fc(h)
        A, h = self.attention_net(h)
        A = torch.transpose(A, 1, 0)  # 1 x N
        A_raw = A
        A = torch.softmax(A, dim=1)
        if attention_only:
            return A
        M = torch.mm(A, h)
        logits = self.classifier(M)
        Y_hat = torch.topk(logits, 1, dim=1)[1]
        Y_prob = torch.softmax(logits, dim=1)
        return {"logits": logits, "Y_prob": Y_prob, "Y_hat": Y_hat, "A_raw": A_raw, "features": M}
