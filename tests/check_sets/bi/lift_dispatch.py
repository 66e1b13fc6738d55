'''elevator group control: which car answers which hall call

calls  [B, C, F]   one row per open hall call
cars   [B, K, F]   one row per car
scores [B, C, K]   cost of letting the car take the call

hall calls read the state of the cars by attention, then an MLP scores the pair.
dropout on the attention weights while training, none in service.
'''
import torch, torch.nn as nn, torch.nn.functional as F

FLOOR_H = 3.4      # m
V_MAX = 2.5        # m/s
A_MAX = 1.0


def travel_time(df):
    s = df.abs() * FLOOR_H
    short = s < V_MAX ** 2 / A_MAX
    return torch.where(short, 2 * (s / A_MAX).clamp_min(1e-9).sqrt(), s / V_MAX + V_MAX / A_MAX)


class CarReader(nn.Module):
    def __init__(self, f, nhead, p=0.1):
        super().__init__()
        self.nhead, self.p = nhead, p
        self.q = nn.Linear(f, f)
        self.kv = nn.Linear(f, 2 * f)
        self.o = nn.Linear(f, f)

    def split(self, t):
        return t.unflatten(-1, (self.nhead, -1)).transpose(1, 2)

    def forward(self, calls, cars, out_of_service=None):
        '''out_of_service: bool [B, K], True = car cannot be used'''
        q = self.split(self.q(calls))
        k, v = map(self.split, self.kv(cars).chunk(2, -1))
        m = None
        if out_of_service is not None:
            m = ~out_of_service[:, None, None, :]
        if not self.training:
            self.p = 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=m, dropout_p=self.p)
        return self.o(y.transpose(1, 2).flatten(2))


class Dispatcher(nn.Module):
    def __init__(self, f=32, nhead=4, p=0.1):
        super().__init__()
        self.read = CarReader(f, nhead, p)
        self.norm = nn.LayerNorm(f)
        self.pair = nn.Sequential(nn.Linear(2 * f + 1, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, calls, cars, call_floor, car_floor, oos=None):
        h = self.norm(calls + self.read(calls, cars, oos))
        C, K = h.shape[1], cars.shape[1]
        t = travel_time(call_floor[:, :, None] - car_floor[:, None, :])
        z = torch.cat([h[:, :, None].expand(-1, -1, K, -1),
                       cars[:, None].expand(-1, C, -1, -1), t[..., None]], -1)
        s = self.pair(z).squeeze(-1)
        return s if oos is None else s.masked_fill(oos[:, None], float('inf'))
