"""What the converter knows of the libraries that programs train with: one package a library."""
