import torch
import torch.nn.functional as F


def contrastive_loss(query, key, queue, temperature=0.07):
    """InfoNCE loss of MoCo (He et al. 2020).

    query (B, D) embeddings of one view, key (B, D) momentum embeddings of the other view,
    queue (K, D) unit-norm negatives.  Returns the mean loss and the top-1 accuracy.
    """
    query = F.normalize(query, dim=-1)
    key = F.normalize(key.detach(), dim=-1)
    positive = (query * key).sum(-1, keepdim=True)
    negative = query @ queue.t()
    logits = torch.cat([positive, negative], dim=1) / temperature
    labels = torch.zeros(len(query), dtype=torch.long, device=query.device)
    log_prob = logits.log_softmax(dim=-1)
    loss = -log_prob.gather(1, labels[:, None]).mean()
    accuracy = (logits.argmax(dim=-1) == labels).float().mean()
    return loss, accuracy


@torch.no_grad()
def enqueue(queue, key, pointer):
    """Overwrite the oldest rows of the ring buffer with the new keys; returns the new pointer."""
    rows = (pointer + torch.arange(len(key))) % len(queue)
    queue[rows] = F.normalize(key, dim=-1)
    return int((pointer + len(key)) % len(queue))
