"""The magics of notebooks. Each module loads what does the work when it is used, so that `%load_ext jupyter_hvd` is instant."""
