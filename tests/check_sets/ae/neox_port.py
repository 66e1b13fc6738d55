import torch


def neox_self_attention(params, hidden, n_head):
    """Plain re-implementation of the self-attention of a NeoX-style checkpoint (without rotary).

    params: dict with
        qkv.weight   (3*E, E)   rows grouped by head: q, k and v of head 0, then q, k, v of head 1, ...
        qkv.bias     (3*E,)
        dense.weight (E, E)
        dense.bias   (E,)
    hidden: (batch, seq, E)
    """
    B, T, E = hidden.shape
    hd = E // n_head
    fused = torch.addmm(params["qkv.bias"], hidden.reshape(B * T, E), params["qkv.weight"].t())
    fused = fused.view(B, T, 3, n_head, hd)
    q, k, v = fused.permute(2, 0, 3, 1, 4)

    att = torch.baddbmm(
        torch.zeros((), dtype=q.dtype, device=q.device),
        q.reshape(B * n_head, T, hd),
        k.reshape(B * n_head, T, hd).transpose(1, 2),
        beta=0.0,
        alpha=hd ** -0.5,
    ).view(B, n_head, T, T)

    future = torch.ones(T, T, dtype=torch.bool, device=hidden.device).triu(1)
    att = att.masked_fill(future, torch.finfo(att.dtype).min)
    att = att.float().softmax(-1).type_as(v)
    ctx = (att @ v).permute(0, 2, 1, 3).reshape(B, T, E)
    return ctx @ params["dense.weight"].t() + params["dense.bias"]


def load_layer(state_dict, i):
    prefix = f"gpt_neox.layers.{i}.attention."
    ren = {"query_key_value": "qkv", "dense": "dense"}
    out = {}
    for name, t in state_dict.items():
        if name.startswith(prefix):
            mod, kind = name[len(prefix):].rsplit(".", 1)
            if mod in ren:
                out[f"{ren[mod]}.{kind}"] = t
    return out
