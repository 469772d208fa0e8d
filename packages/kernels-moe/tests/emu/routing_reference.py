"""What the routing has to give, in float64 and plain loops."""

from __future__ import annotations

import numpy as np

__all__ = ["gating", "sorting"]


def best(values, count):
    """Return the places of the largest values, the first ones of equals; NaN comes last."""
    order = np.where(np.isnan(values), -np.inf, values)
    # NaN after -inf: a second key.
    return np.lexsort((np.arange(values.size), np.isnan(values), -order))[:count]


def scores(logits, scoring):
    x = logits.astype(np.float64)
    if scoring == "sigmoid":
        with np.errstate(over="ignore"):
            return np.where(np.isnan(x), 0.0, 1 / (1 + np.exp(-x)))
    top = np.fmax.reduce(x, axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        power = np.exp(np.where(x == top, 0.0, x - top))
    power = np.where(np.isnan(x), 0.0, power)
    return power / np.maximum(power.sum(1, keepdims=True), 1e-300)


def gating(logits, k, scoring="softmax", renormalise=True, bias=None, groups=(1, 1), scale=1.0):
    """Return weights and ids, and the margin by which each choice of a token was decided."""
    score = scores(logits, scoring)
    choice = logits.astype(np.float64) if bias is None else score + bias.astype(np.float64)
    choice = np.where(np.isnan(logits.astype(np.float64)), np.nan, choice)
    weights, ids = np.zeros((len(logits), k)), np.zeros((len(logits), k), np.int32)
    for t, row in enumerate(choice):
        parts = row.reshape(groups[0], -1)
        if bias is None:
            of_group = np.array([part[best(part, 1)[0]] for part in parts])
        else:
            of_group = np.array([part[best(part, 2)].sum() for part in parts])
        kept = np.sort(best(of_group, groups[1]))
        members = np.concatenate([np.arange(g * parts.shape[1], (g + 1) * parts.shape[1])
                                  for g in kept])  # fmt: skip
        ids[t] = members[best(row[members], k)]
        weights[t] = score[t, ids[t]]
    if renormalise:
        total = weights.sum(1, keepdims=True)
        weights = np.where(total > 0, weights / np.where(total > 0, total, 1), 0)
    return weights * scale, ids


def sorting(ids, weights, experts, unit, mask=None, tokens=None):
    """Return ids, weights, experts of blocks and places, without what follows the last block."""
    count, slots = ids.shape
    tokens = count if tokens is None else tokens
    out, kept, blocks, places, local = [], [], [], np.full(ids.shape, -1), 0
    for expert in range(experts):
        if mask is not None and not mask[expert]:
            continue
        pairs = [(t, s) for t in range(tokens) for s in range(slots) if ids[t, s] == expert]
        for t, s in pairs:
            places[t, s] = len(out)
            out.append((s << 24) | t)
            kept.append(weights[t, s])
        padding = -len(pairs) % unit
        out += [(slots << 24) | count] * padding
        kept += [0.0] * padding
        blocks += [local] * ((len(pairs) + padding) // unit)
        local += 1
    return out, kept, blocks, places
