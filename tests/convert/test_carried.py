"""States that are carried from batch to batch by hand, where each rank has every N-th batch."""

from __future__ import annotations

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.rules.base import program

HEAD = program(
    """
    import tensorflow as tf

    x, y = tf.zeros((960, 8)), tf.zeros((960, 1))
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
    gru, lstm, head = (tf.keras.layers.GRUCell(16), tf.keras.layers.LSTMCell(16), tf.keras.layers.Dense(1))
    opt = tf.keras.optimizers.Adam(1e-3)


    class Own(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.cell, self.state = tf.keras.layers.GRUCell(16), None

        def forget(self):
            self.state = None

        def call(self, a):
            if self.state is None:
                self.state = tf.zeros((32, 16))
            out, self.state = self.cell(a, self.state)
            return out


    own, kept = Own(), tf.Variable(tf.zeros((32, 16)), trainable=False)
    """
)
LOOP = program(
    """
    for epoch in range(3):
        {epoch}
        for a, b in data:
            {before}
            with tf.GradientTape() as tape:
                {made}
                loss = tf.reduce_mean((head(out) - b) ** 2)
            variables = [*gru.trainable_variables, *head.trainable_variables]
            opt.apply_gradients(zip(tape.gradient(loss, variables), variables))
            {after}
    """
)
INTO_FUNCTION = program(
    """
    @tf.function
    def step(a, b, state):
        with tf.GradientTape() as tape:
            out, state = gru(a, state)
            loss = tf.reduce_mean((head(out) - b) ** 2)
        variables = [*gru.trainable_variables, *head.trainable_variables]
        opt.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss, state


    def train():
        batches, h = iter(data.repeat()), tf.zeros((32, 16))
        for k in range(100):
            a, b = next(batches)
            {begin}
            loss, h = step(a, b, h)


    train()
    """
)
BEGIN = "h = tf.zeros((32, 16))"


def told(source: str) -> list[str]:
    """The lines of which it is told that they carry a state."""
    conversion = convert_source(HEAD + source)
    assert conversion.status == "converted", conversion.diagnostics
    lines = (HEAD + source).splitlines()
    assert {(d.code, d.severity) for d in conversion.diagnostics} <= {("HVD508", "warning")}
    return [lines[d.line - 1].strip() for d in conversion.diagnostics]


@pytest.mark.parametrize(
    ("made", "after", "line"),
    [
        ("out, h = gru(a, h)", "pass", "out, h = gru(a, h)"),
        ("out, [h] = gru(a, [h])", "pass", "out, [h] = gru(a, [h])"),
        ("out, new = gru(a, h)", "h = tf.stop_gradient(new)", "h = tf.stop_gradient(new)"),
        ("out = tf.tanh(gru(a, h)[0] + 1)", "h = out.numpy()", "h = out.numpy()"),
        ("out = head(tf.concat([a, h], 1))", "h = tf.tanh(out)", "h = tf.tanh(out)"),
        ("h = out = tf.tanh(h @ gru.kernel)", "pass", "h = out = tf.tanh(h @ gru.kernel)"),
        ("out, new = gru(a, kept)", "kept.assign(new)", "kept.assign(new)"),
        ("for t in range(4): out, h = gru(a, h)", "", "for t in range(4): out, h = gru(a, h)"),
        ("out = own(a)", "", "out, self.state = self.cell(a, self.state)"),
    ],
)
def test_a_state_that_a_loop_carries_is_told(made: str, after: str, line: str) -> None:
    source = LOOP.format(epoch=BEGIN, before="pass", made=made, after=after or "pass")
    assert told(source) == [line]


@pytest.mark.parametrize(
    ("before", "made", "after"),
    [
        (BEGIN, "out, h = gru(a, h)", "pass"),
        (BEGIN, "for t in range(4): out, h = gru(a, h)", "pass"),
        ("own.forget()", "out = own(a)", "pass"),
        ("pass", "out, new = gru(a, h)", "print(new)"),
        ("pass", "out, new = gru(a, h)", "last = new"),
    ],
    ids=["begun", "within a batch", "forgotten", "printed", "not taken up"],
)
def test_what_begins_anew_at_each_batch_is_no_such_state(
    before: str, made: str, after: str
) -> None:
    assert told(LOOP.format(epoch=BEGIN, before=before, made=made, after=after)) == []


def test_a_state_that_goes_through_a_function_is_told() -> None:
    assert told(INTO_FUNCTION.format(begin="pass")) == ["loss, h = step(a, b, h)"]
    assert told(INTO_FUNCTION.format(begin=BEGIN)) == []
