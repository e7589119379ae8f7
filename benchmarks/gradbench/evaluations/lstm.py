"""The loss of a network of layers whose weights are diagonal, over a text as bits of characters."""

from __future__ import annotations

import numpy as np

from evaluations import Function, as_lists, on_device
from jupyter_hvd.tensor import tensor


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@tensor
def loss(main, extra, state, sequence, layers: int):
    count, bits = sequence.shape
    hidden, cell = [state[2 * i] for i in range(layers)], [state[2 * i + 1] for i in range(layers)]
    total = 0.0
    for t in range(count - 1):
        shown = sequence[t] * extra[0]
        for i in range(layers):
            w, b = main[2 * i].reshape(4, bits), main[2 * i + 1].reshape(4, bits)
            forget = sigmoid(shown * w[0] + b[0])
            entered = sigmoid(hidden[i] * w[1] + b[1])
            gate = sigmoid(shown * w[2] + b[2])
            change = np.tanh(hidden[i] * w[3] + b[3])
            cell[i] = cell[i] * forget + entered * change
            hidden[i] = gate * np.tanh(cell[i])
            shown = hidden[i]
        guess = shown * extra[1] + extra[2]
        total += np.sum(sequence[t + 1] * (guess - np.log(np.sum(np.exp(guess)) + 2)))
    return -total / (bits * (count - 1))


def _prepare(given):
    names = ("main_params", "extra_params", "state", "sequence")
    return *on_device(*(given[x] for x in names)), len(given["state"]) // 2


def _flat(gradients):
    return np.concatenate([np.ravel(g) for g in as_lists(gradients)]).tolist()


FUNCTIONS = {
    "objective": Function(_prepare, loss),
    "jacobian": Function(_prepare, loss.grad("main", "extra"), _flat),
}
