# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
# Keras 3 alone: Keras 2 has no `SwapEMAWeights`
"""`BackupAndRestore`, averaged weights swapped in by `SwapEMAWeights`, several steps an execution"""

import keras
import numpy as np

rng = np.random.RandomState(0)
x = rng.normal(size=(96, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile(
    keras.optimizers.Adam(1e-3, use_ema=True, ema_momentum=0.9),
    loss="mse",
    metrics=["mae"],
    auto_scale_loss=True,
    steps_per_execution=2,
)
callbacks = [
    keras.callbacks.BackupAndRestore("backup"),
    keras.callbacks.SwapEMAWeights(swap_on_epoch=True),
    keras.callbacks.ModelCheckpoint("best.keras", monitor="val_loss", save_best_only=True),
]
model.fit(x, y, batch_size=8, epochs=2, validation_data=(x, y), callbacks=callbacks)
