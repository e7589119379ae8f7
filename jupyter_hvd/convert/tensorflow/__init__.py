"""TensorFlow 2 with Keras 2 or 3: its names, and how and on what a program trains."""
