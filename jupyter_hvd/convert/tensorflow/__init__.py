"""TensorFlow 2 with Keras 2: its names, and where and on what a program trains."""
