# 文の感情分類のための小さなBERT(卒業研究)
# 入力は文のリスト。トークン化は文字単位。
import math
import torch
from torch import nn

PAD, CLS, UNK = 0, 1, 2


class MojiJisho:
    """文字 -> 番号"""

    def __init__(self, bunsho):
        moji = sorted(set("".join(bunsho)))
        self.bango = {m: i + 3 for i, m in enumerate(moji)}

    def __len__(self):
        return len(self.bango) + 3

    def batch(self, bunsho):
        """文のリスト -> (番号 [B, L], 長さのリスト)"""
        retsu = [[CLS] + [self.bango.get(m, UNK) for m in b] for b in bunsho]
        nagasa = [len(r) for r in retsu]
        L = max(nagasa)
        return torch.tensor([r + [PAD] * (L - len(r)) for r in retsu]), nagasa


class JikoChuui(nn.Module):
    """自己注意。nagasa は各文の長さ(リスト)。長さより後ろは見ない。"""

    def __init__(self, jigen, atama):
        super().__init__()
        self.atama = atama
        self.shou = jigen // atama
        self.query = nn.Linear(jigen, jigen)
        self.key = nn.Linear(jigen, jigen)
        self.value = nn.Linear(jigen, jigen)
        self.dense = nn.Linear(jigen, jigen)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, nagasa):
        B, L, D = x.size()
        wakeru = lambda t: t.view(B, L, self.atama, self.shou).permute(0, 2, 1, 3)
        q, k, v = wakeru(self.query(x)), wakeru(self.key(x)), wakeru(self.value(x))
        ten = torch.matmul(q, k.permute(0, 1, 3, 2)) / math.sqrt(self.shou)
        basho = torch.arange(L, device=x.device)
        mieru = basho[None, :] < torch.as_tensor(nagasa, device=x.device)[:, None]
        ten = ten.masked_fill(mieru[:, None, None, :].logical_not(), -math.inf)
        omomi = self.drop(ten.softmax(dim=3))
        y = torch.matmul(omomi, v).permute(0, 2, 1, 3).reshape(B, L, D)
        return self.dense(y)


class Sou(nn.Module):
    def __init__(self, jigen, atama, naka):
        super().__init__()
        self.chuui = JikoChuui(jigen, atama)
        self.ln1 = nn.LayerNorm(jigen, eps=1e-12)
        self.ff = nn.Sequential(nn.Linear(jigen, naka), nn.GELU(), nn.Linear(naka, jigen), nn.Dropout(0.1))
        self.ln2 = nn.LayerNorm(jigen, eps=1e-12)

    def forward(self, x, nagasa):
        x = self.ln1(x + self.chuui(x, nagasa))
        return self.ln2(x + self.ff(x))


class ChiisaiBert(nn.Module):
    def __init__(self, goi, jigen=64, atama=4, sousuu=2, saidai=128, bunrui=2):
        super().__init__()
        self.moji = nn.Embedding(goi, jigen, padding_idx=PAD)
        self.ichi = nn.Embedding(saidai, jigen)
        self.ln = nn.LayerNorm(jigen, eps=1e-12)
        self.sou = nn.ModuleList([Sou(jigen, atama, jigen * 4) for _ in range(sousuu)])
        self.pool = nn.Linear(jigen, jigen)
        self.out = nn.Linear(jigen, bunrui)

    def forward(self, bango, nagasa):
        x = self.moji(bango) + self.ichi(torch.arange(bango.size(1), device=bango.device))
        x = self.ln(x)
        for s in self.sou:
            x = s(x, nagasa)
        return self.out(torch.tanh(self.pool(x[:, 0])))


def gakushuu(model, jisho, bunsho, seikai, kaisuu=10):
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    for _ in range(kaisuu):
        ids, nagasa = jisho.batch(bunsho)
        loss = nn.functional.cross_entropy(model(ids, nagasa), torch.tensor(seikai))
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()
