"""The published datasets, read from their authors' files, and checks of these files.

`pidual.data.datasets.load_dataset` loads them by name.
"""
