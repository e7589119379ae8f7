"""Saved in every form, loaded again, trained on."""

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(22, 4)).astype("float32")
y = x @ rng.normal(size=(4, 2)).astype("float32")
keras = tf.keras
model = keras.Sequential(
    [keras.Input((4,)), keras.layers.Dense(5, activation="tanh"), keras.layers.BatchNormalization(), keras.layers.Dropout(0.3), keras.layers.Dense(2)]
)
model.compile(keras.optimizers.Adam(0.01), "mse")
saver = keras.callbacks.ModelCheckpoint("best.keras", monitor="loss", save_best_only=True)
weights = keras.callbacks.ModelCheckpoint("w{epoch}.weights.h5", save_weights_only=True)
model.fit(x, y, epochs=3, batch_size=8, verbose=0, callbacks=[saver, weights])
model.save("model.keras")

model.save_weights("model.weights.h5")
model.export("exported", verbose=False)
tf.saved_model.save(model, "plain")
checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
path = checkpoint.save("checkpoints/c")

print("before", model.predict(x, verbose=0).sum(0))
for name in ("best.keras", "model.keras"):
    again = keras.models.load_model(name)
    print(name, again.predict(x, verbose=0).sum(0), again.evaluate(x, y, verbose=0))
    again.fit(x, y, epochs=2, batch_size=8, verbose=0)
    print(again.predict(x, verbose=0).sum(0))
for name in ("exported", "plain"):
    served = tf.saved_model.load(name)
    out = served.signatures["serving_default"](tf.constant(x))
    print(name, [float(tf.reduce_sum(v)) for v in out.values()])
served = tf.saved_model.load("exported")
print("serve", tf.reduce_sum(served.serve(tf.constant(x)), 0).numpy())
layer = keras.layers.TFSMLayer("exported", call_endpoint="serve")
print("layer", tf.reduce_sum(layer(x), 0).numpy())
model.fit(x, y, epochs=1, batch_size=8, verbose=0)
checkpoint.restore(path).assert_existing_objects_matched()
print("restored", model.predict(x, verbose=0).sum(0))
model.fit(x, y, epochs=1, batch_size=8, verbose=0)
model.load_weights("w2.weights.h5")
print("second epoch", model.predict(x, verbose=0).sum(0))
copy = keras.models.clone_model(model)
copy.set_weights(model.get_weights())
print("copy", copy.predict(x, verbose=0).sum(0), keras.models.model_from_json(model.to_json()).count_params())
shapeless = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(2)])
shapeless.compile("sgd", "mse")
shapeless.fit(x, y, epochs=1, batch_size=8, verbose=0)
shapeless.save("shapeless.keras")
