"""A kernel as Jupyter starts it, whose garbage collector runs rarely: it takes a quarter of importing TensorFlow."""

import gc
import sys

if __name__ == "__main__":
    del sys.path[0]  # this folder
    gc.set_threshold(50_000, 20, 100)
    from ipykernel import kernelapp

    kernelapp.launch_new_instance()
