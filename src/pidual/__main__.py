"""`python -m pidual` is `pidual`."""

from .cli import main

main()
