"""bfloat16 is shared, float16 with its scaled loss runs unsharded."""
import keras
import numpy as np

keras.utils.set_random_seed(15)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(24, 4)).astype("float32"), rng.normal(size=(24, 1)).astype("float32")
for policy in ("mixed_float16", "float64"):
    keras.mixed_precision.set_global_policy(policy)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, dtype="float32")])
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
    model.fit(x, y, epochs=2, batch_size=10, verbose=0)
keras.mixed_precision.set_global_policy("float32")
