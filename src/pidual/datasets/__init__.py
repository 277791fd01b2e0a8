"""Data to train on: what pidual makes itself, and what others publish, as a frame of annotations and inputs x."""
