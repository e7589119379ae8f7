"""The loss of a network of layers whose weights are diagonal, over a text as bits of characters."""

from __future__ import annotations

import numpy as np

from evaluations import Function, as_lists, on_device
from jupyter_hvd.tensor import tensor


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@tensor
def loss(main, extra, state, sequence):
    """Of `main` the axes are layer, weight or bias, gate and bit; of `state` layer, hidden or cell, and bit."""
    count, bits = sequence.shape
    layers = len(main)
    hidden, cell = state[:, 0], state[:, 1]
    total = 0.0
    for t in range(count - 1):
        shown = sequence[t] * extra[0]
        new_hidden, new_cell = np.zeros((layers, bits)), np.zeros((layers, bits))
        for i in range(layers):
            weight, bias = main[i, 0], main[i, 1]
            forget = sigmoid(shown * weight[0] + bias[0])
            entered = sigmoid(hidden[i] * weight[1] + bias[1])
            gate = sigmoid(shown * weight[2] + bias[2])
            change = np.tanh(hidden[i] * weight[3] + bias[3])
            new_cell[i] = cell[i] * forget + entered * change
            shown = gate * np.tanh(new_cell[i])
            new_hidden[i] = shown
        hidden, cell = new_hidden, new_cell
        guess = shown * extra[1] + extra[2]
        total += np.sum(sequence[t + 1] * (guess - np.log(np.sum(np.exp(guess)) + 2)))
    return -total / (bits * (count - 1))


def _prepare(given):
    bits = len(given["extra_params"][0])
    main = np.reshape(given["main_params"], (-1, 2, 4, bits))
    state = np.reshape(given["state"], (-1, 2, bits))
    return on_device(main, given["extra_params"], state, given["sequence"])


def _flat(gradients):
    return np.concatenate([np.ravel(g) for g in as_lists(gradients)]).tolist()


FUNCTIONS = {
    "objective": Function(_prepare, loss),
    "jacobian": Function(_prepare, loss.grad("main", "extra"), _flat),
}
